// State, drawing on change, and what a person can do.

const byId = (id) => document.getElementById(id);

const anySpecial = [data.queries, data.keys].some((side) => side.special.includes(1));

const state = {
  n: Math.max(0, headAt(...data.first)),
  level: "pieces",
  hide: false,
  scale: "root",
  theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
  cell: null,   // px a cell of the matrix; null = the whole map fits
  pin: null,    // {side, token}: a piece's position, so that it survives a change of level
  hover: null,  // {side, index} or {i, j}
};

let sides = null;
let scene = null;  // what the figures draw: see sceneOf
const thumbnails = new Map();
let thumbnailRound = 0;  // a new round begins when the look of all small maps changes

function sceneOf(map) {
  const made = { n: state.n, map, sides, most: map.most, scale: state.scale, theme: themes[state.theme], focus: null, cursor: null };
  let picture = null;
  made.picture = () => picture ??= pictureOf(map, made.most, made.scale, made.theme);
  return made;
}

function pinnedGroup() {
  if (!state.pin) return null;
  const index = sides[state.pin.side].findIndex((group) => group.members.includes(state.pin.token));
  return index < 0 ? null : { side: state.pin.side, index };
}

function updateFocus() {
  const hover = state.hover;
  scene.cursor = hover && "i" in hover ? hover : null;
  const pinned = pinnedGroup();
  scene.focus = hover && "side" in hover ? hover : pinned ?? (scene.cursor ? { side: "queries", index: hover.i } : null);
}

// Windows onto the two large figures.
function windowOf(box) {
  return { x: box.scrollLeft, y: box.scrollTop, width: box.clientWidth, height: box.clientHeight };
}

let matrixPlace = null;
let linesPlace = null;

function placeFigures() {
  matrixPlace = place(byId("matrix-box"), (width) => matrixLayout(scene, width, state.cell));
  linesPlace = place(byId("lines-box"), (width) => linesLayout(scene, width));
}

function place(box, layoutFor) {
  const layout = layoutFor(box.clientWidth);
  const sheet = box.firstElementChild;
  sheet.style.width = `${Math.max(1, Math.floor(layout.width))}px`;
  sheet.style.height = `${Math.ceil(layout.height)}px`;
  return layout;
}

function drawInto(box, draw, layout) {
  const canvas = box.querySelector("canvas");
  const view = windowOf(box);
  canvas.style.width = `${view.width}px`;
  canvas.style.height = `${view.height}px`;
  draw(new CanvasSurface(canvas, view.width, view.height, window.devicePixelRatio || 1), scene, layout, view);
}

let frame = 0;
function redraw() {
  if (frame) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    if (!scene) return;
    updateFocus();
    drawInto(byId("matrix-box"), drawMatrix, matrixPlace);
    drawInto(byId("lines-box"), drawLines, linesPlace);
    tintText(byId("text"), scene);
    fillDetails(scene);
    fillReadout();
  });
}

function fillReadout() {
  const { map, focus, cursor } = scene;
  const name = (side, index) => `“${sides[side][index].text}” (${sides[side][index].members[0]})`;
  let text = "Point at a token or a cell; click to pin it.";
  if (cursor) {
    const w = map.weights[cursor.i * map.columns + cursor.j];
    text = `${name("queries", cursor.i)} → ${name("keys", cursor.j)}: ${w.toFixed(data.digits)}`;
  } else if (focus) {
    text = `${focus.side === "queries" ? "Query" : "Key"} ${name(focus.side, focus.index)}${state.pin && !state.hover ? ", pinned: Esc lets go" : ""}`;
  }
  byId("readout").textContent = text;
}

// Names and numbers of the head that is open.
function fillHead() {
  const { layer, head, entropy, special } = data.heads[state.n];
  byId("head-name").textContent = `Layer ${layer}, head ${head}`;
  const facts = [];
  if (entropy !== null) facts.push(`entropy ${entropy.toFixed(2)} nats, about ${Math.exp(entropy).toFixed(1)} tokens`);
  if (special !== null && anySpecial) facts.push(`${Math.round(100 * special)}% on special tokens`);
  byId("head-facts").textContent = facts.join(" · ");
  const longText = Math.max(scene.map.rows, scene.map.columns) * rowHeight > byId("lines-box").clientHeight;
  byId("lines-facts").textContent = longText ? "between tokens in sight" : "query to key";
  byId("legend-high").textContent = scene.most.toPrecision(3);
  const legend = byId("legend");
  legend.width = 256;
  const context = legend.getContext("2d");
  for (let x = 0; x < 256; ++x) {
    context.fillStyle = scene.theme.css[shadeOf(x / 255, 1, state.scale)];
    context.fillRect(x, 0, 1, 10);
  }
}

let opening = 0;
// Shows the head of `state` in the level of `state`.
async function showHead() {
  const turn = ++opening;
  const counts = await mapOf(state.n);
  if (turn !== opening) return;  // another head was asked for meanwhile
  sides = sidesOf(state.level === "words", state.hide);
  scene = sceneOf(weightsOf(counts, sides));
  fillText(byId("text"), scene);
  placeFigures();
  fillHead();
  drawGrid();
  redraw();
  writeHash();
}

function press(id, on) {
  byId(id).setAttribute("aria-pressed", String(on));
}

async function set(change) {
  const all = ["level", "hide", "scale", "theme"].some((key) => key in change && change[key] !== state[key]);
  Object.assign(state, change);
  document.documentElement.dataset.theme = state.theme;
  byId("theme").textContent = state.theme === "dark" ? "Light" : "Dark";
  press("level-pieces", state.level === "pieces");
  press("level-words", state.level === "words");
  press("scale-root", state.scale === "root");
  press("scale-linear", state.scale === "linear");
  press("hide", state.hide);
  await showHead();
  if (all) fillThumbnails();
}

let gridPlaceNow = null;
let gridSurface = null;

function drawGrid() {
  const box = byId("grid-box");
  gridPlaceNow = gridLayout(box.clientWidth);
  const canvas = byId("grid");
  canvas.style.width = `${gridPlaceNow.width}px`;
  canvas.style.height = `${gridPlaceNow.height}px`;
  gridSurface = new CanvasSurface(canvas, gridPlaceNow.width, gridPlaceNow.height, window.devicePixelRatio || 1);
  drawGridFrame(gridSurface, gridPlaceNow, themes[state.theme]);
  data.heads.forEach((_, n) => drawOne(n));
}

function drawOne(n, pointed = false) {
  drawThumbnail(gridSurface, gridPlaceNow, data.heads[n], thumbnails.get(n), themes[state.theme], n === state.n, pointed);
}

// Decodes every head, a few at a time, and lets the page breathe in between.
async function fillThumbnails() {
  const round = ++thumbnailRound;
  for (let n = 0; n < data.heads.length; ++n) {
    const counts = await mapOf(n);
    if (round !== thumbnailRound) return;
    const pixels = Math.ceil(gridPlaceNow.size * (window.devicePixelRatio || 1));
    thumbnails.set(n, thumbnailOf(weightsOf(counts, sides), pixels, state.scale, themes[state.theme]));
    drawOne(n);
    if (n % 4 === 3) await new Promise((resolve) => setTimeout(resolve));
  }
  document.documentElement.dataset.heads = data.heads.length;
}
