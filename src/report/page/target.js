// What is pointed at. Only the pointer's place is kept, and what lies there is looked up for each drawing: it stays right
// when the map is zoomed, scrolled or replaced under a pointer that rests.

let matrixPlace = null;
let linesPlace = null;

// Window onto a large figure.
function windowOf(box) {
  return { x: box.scrollLeft, y: box.scrollTop, width: box.clientWidth, height: box.clientHeight };
}

function inCanvas(canvas) {
  const bounds = canvas.getBoundingClientRect();
  return [state.pointer.x - bounds.left, state.pointer.y - bounds.top];
}

function elementUnder(selector) {
  return document.elementFromPoint(state.pointer.x, state.pointer.y)?.closest(selector) ?? null;
}

function targetOfElement(found) {
  if (!found) return null;
  const { i, j, side, index } = found.dataset;
  return i !== undefined ? { i: Number(i), j: Number(j) } : { side, index: Number(index) };
}

// A cell {i, j}, a token {side, index}, or null.
const targetIn = {
  matrix: () => matrixAt(scene, matrixPlace, windowOf(byId("matrix-box")), ...inCanvas(byId("matrix"))),
  lines: () => linesAt(scene, linesPlace, windowOf(byId("lines-box")), ...inCanvas(byId("lines"))),
  text: () => targetOfElement(elementUnder("#text .token")),
};

function hoveredTarget() {
  return state.pointer && state.pointer.where in targetIn ? targetIn[state.pointer.where]() : null;
}

// The row of a list that is pointed at or has the keyboard's focus. It is shown in the figures, but does not replace what
// the lists are about.
function hintedTarget() {
  const row = state.pointer?.where === "list" ? elementUnder(".entry") : document.activeElement?.closest(".entry");
  return targetOfElement(row);
}

// The small map that is pointed at, or -1.
function hoveredHead() {
  return state.pointer?.where === "grid" ? gridAt(gridPlaceNow, ...inCanvas(byId("grid"))) : -1;
}

function updateFocus() {
  const hover = hoveredTarget();
  const hint = hintedTarget();
  const cellOf = (target) => target && "i" in target ? target : null;
  scene.pin = pinnedTarget();
  scene.focus = hover && "side" in hover ? hover : tokenOf(scene.pin) ?? tokenOf(hover);
  scene.cursor = cellOf(hover) ?? cellOf(hint) ?? cellOf(scene.pin);
  scene.hint = hint && "side" in hint ? hint : null;
}
