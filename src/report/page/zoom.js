// Zoom of the map: the point under the pointer, else the pinned cell, else the middle stays where it is.

const smallestCell = 1;   // px
const largestZoom = 48;   // px a cell

// The place in the window of the map that is kept: {x, y} px.
function anchorOfZoom(view) {
  const { cell, left, top } = matrixPlace;
  const inside = (x, y) => x >= left && y >= top && x <= view.width && y <= view.height;
  if (state.pointer?.where === "matrix") {
    const [x, y] = inCanvas(byId("matrix"));
    if (inside(x, y)) return { x, y };
  }
  const middle = { x: (left + view.width) / 2, y: (top + view.height) / 2 };
  const pin = pinnedTarget();
  if (!pin) return middle;
  const token = tokenOf(pin);
  const place = { x: left + ((pin.j ?? (token.side === "keys" ? token.index : NaN)) + 0.5) * cell - view.x,
                  y: top + ((pin.i ?? (token.side === "queries" ? token.index : NaN)) + 0.5) * cell - view.y };
  const x = place.x === place.x ? place.x : middle.x;
  const y = place.y === place.y ? place.y : middle.y;
  return { x, y };
}

// Cells larger by `factor`; null = the whole map.
function zoom(factor) {
  const box = byId("matrix-box");
  const view = windowOf(box);
  const before = matrixPlace;
  const anchor = anchorOfZoom(view);
  // the anchor in cells
  const at = { x: (anchor.x - before.left + view.x) / before.cell, y: (anchor.y - before.top + view.y) / before.cell };
  state.cell = factor === null ? null : Math.max(smallestCell, Math.min(largestZoom, nextCell(before.cell, factor)));
  placeFigures();
  box.scrollLeft = at.x * matrixPlace.cell + matrixPlace.left - anchor.x;
  box.scrollTop = at.y * matrixPlace.cell + matrixPlace.top - anchor.y;
  redraw();
}

// Whole px, and never the same again.
function nextCell(cell, factor) {
  const next = Math.round(cell * factor);
  return factor > 1 ? Math.max(next, Math.floor(cell) + 1) : Math.min(next, Math.ceil(cell) - 1);
}
