// Drawing on change: the figures of the head that is open, and what is said about them.

function placeFigures() {
  matrixPlace = place(byId("matrix-box"), (width, height) => matrixLayout(scene, width, state.cell, height));
  linesPlace = place(byId("lines-box"), (width) => linesLayout(scene, width));
  for (const box of document.querySelectorAll(".scroller")) reachableByKeys(box);
}

function place(box, layoutFor) {
  const layout = layoutFor(box.clientWidth, parseFloat(getComputedStyle(box).maxHeight) - 10);
  const sheet = box.firstElementChild;
  sheet.style.width = `${Math.max(1, Math.floor(layout.width))}px`;
  sheet.style.height = `${Math.ceil(layout.height)}px`;
  return layout;
}

// A box that scrolls takes the keyboard's focus.
function reachableByKeys(box) {
  const scrolls = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
  if (scrolls) box.tabIndex = 0;
  else box.removeAttribute("tabindex");
}

function drawInto(box, draw, layout) {
  const canvas = box.querySelector("canvas");
  const view = windowOf(box);
  canvas.style.width = `${view.width}px`;
  canvas.style.height = `${view.height}px`;
  draw(new CanvasSurface(canvas, view.width, view.height, window.devicePixelRatio || 1), scene, layout, view);
}

function drawAll() {
  Object.assign(scene, look());
  updateFocus();
  fillDetails(scene);
  drawInto(byId("matrix-box"), drawMatrix, matrixPlace);
  drawInto(byId("lines-box"), drawLines, linesPlace);
  tintText(byId("text"), scene);
  fillReadout();
  fillLinesFacts();
  drawPointedHead();
  fillTip();
}

let frame = 0;
function redraw() {
  if (frame) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    if (scene) drawAll();
  });
}

function fillLinesFacts() {
  const box = byId("lines-box");
  const view = windowOf(box);
  const long = Math.max(scene.map.rows, scene.map.columns) * rowHeight > view.height;
  const folded = foldedSide(scene, linesPlace, view);
  byId("lines-facts").textContent = folded ? "strongest links of the pinned token" : long ? "between tokens in sight" : "query to key";
}

// Names and numbers of the head that is open.
function fillHead() {
  const { entropy, special } = data.heads[state.n];
  byId("head-name").textContent = shownName().replace("l", "L");
  const facts = [];
  if (state.mean) facts.push("each weight is the mean over the heads");
  else if (entropy !== null) facts.push(`entropy ${entropy.toFixed(2)} nats, about ${Math.exp(entropy).toFixed(1)} tokens`);
  if (!state.mean && special !== null && anySpecial) facts.push(`${Math.round(100 * special)}% on special tokens`);
  byId("head-facts").textContent = facts.join(" · ");
  byId("precision").textContent = `The weights of ${state.mean ? "these heads" : "this head"} are kept rounded to ${scene.map.digits} decimals: each number shown is exact to that digit. ` +
    "For words and with special tokens hidden, which add and divide such numbers, the last digit may be off by a few.";
  describeHead();
}

const scaleWords = { root: "colour grows with the square root of the weight", linear: "colour grows with the weight" };

function drawLegends() {
  const most = weightText(scene.most, scene.map.digits, 3);
  byId("legend-high").textContent = most;
  byId("legend-scale").textContent = scaleWords[state.scale];
  byId("grid-legend-high").textContent = state.maps === "common" ? "1, the same for all heads" : "each head’s largest weight";
  byId("legend").ariaLabel = `Colours from 0 to ${most}`;
  byId("grid-legend").ariaLabel = `Colours from 0 to ${byId("grid-legend-high").textContent}`;
  for (const id of ["legend", "grid-legend"]) {
    const canvas = byId(id);
    canvas.width = 256;
    const context = canvas.getContext("2d");
    for (let x = 0; x < 256; ++x) {
      context.fillStyle = themes[themeName()].css[shadeOf(x / 255, 1, state.scale)];
      context.fillRect(x, 0, 1, 10);
    }
  }
}
