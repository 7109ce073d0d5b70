// The small maps of all heads: decoded one after the other, painted in the colours that are chosen.

const thumbnails = new Map();  // index of a head -> its map, pooled
let thumbnailRound = 0;        // a new round begins when what the small maps show changes
let gridPlaceNow = null;
let gridSurface = null;
let pointedHead = -1;

function thumbnailPixels() {
  return Math.ceil(gridPlaceNow.size * (window.devicePixelRatio || 1));
}

function drawGrid() {
  const box = byId("grid-box");
  const before = gridPlaceNow?.size;
  gridPlaceNow = gridLayout(box.clientWidth, parseFloat(getComputedStyle(box).maxHeight) - 4, state.maps === "own");
  const canvas = byId("grid");
  canvas.style.width = `${gridPlaceNow.width}px`;
  canvas.style.height = `${gridPlaceNow.height}px`;
  gridSurface = new CanvasSurface(canvas, gridPlaceNow.width, gridPlaceNow.height, window.devicePixelRatio || 1);
  drawGridFrame(gridSurface, gridPlaceNow, themes[themeName()]);
  data.heads.forEach((_, n) => drawOne(n));
  if (before !== undefined && before !== gridPlaceNow.size) fillThumbnails();
}

function drawOne(n) {
  const theme = themes[themeName()];
  const pooled = thumbnails.get(n);
  const most = state.maps === "common" ? 1 : pooled?.most;
  const picture = pooled ? pooled.picture(most, state.scale, theme) : null;
  const number = pooled && state.maps === "own" ? weightText(pooled.most, pooled.digits, 2).replace(/^0/, "") : "";
  drawThumbnail(gridSurface, gridPlaceNow, data.heads[n], picture, number, theme, n === state.n, n === pointedHead);
}

function drawPointedHead() {
  const before = pointedHead;
  pointedHead = hoveredHead();
  if (before === pointedHead) return;
  for (const n of [before, pointedHead]) if (n >= 0) drawOne(n);
}

// Decodes every head, a few at a time, and lets the page breathe in between.
async function fillThumbnails() {
  const round = ++thumbnailRound;
  for (let n = 0; n < data.heads.length; ++n) {
    const counts = await mapOf(n);
    if (round !== thumbnailRound) return;
    thumbnails.set(n, pooledMap(weightsOf(counts, sides, data.heads[n].digits), thumbnailPixels()));
    drawOne(n);
    if (n % 4 === 3) await new Promise((resolve) => setTimeout(resolve));
  }
  document.documentElement.dataset.heads = data.heads.length;
}
