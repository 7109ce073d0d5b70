// One head as a matrix: row = query, column = key. Only what is in sight is drawn.

const longestLabel = 112;     // px
const smallestLabelled = 9;   // px a cell: below it the axes carry positions, not tokens
const smallestTile = 8;       // px a cell: below it the cells are one picture
const largestCell = 56;        // px, when the whole map is shown

function widestLabel(groups, size) {
  let widest = 24;
  for (const group of groups) widest = Math.max(widest, textWidth(group.text, { size, weight: 600 }));  // as when marked
  return Math.min(longestLabel, Math.ceil(widest));
}

// {cell, left, top, right, width, height}: px; `cell` null = as large as fits `available` x `tallest`.
function matrixLayout(scene, available, cell = null, tallest = 610) {
  const { rows, columns } = scene.map;
  const size = 12;
  const labelled = { left: widestLabel(scene.sides.queries, size) + 14, slant: widestLabel(scene.sides.keys, size) };
  labelled.top = Math.ceil(labelled.slant * 0.87) + 14;
  labelled.right = Math.ceil(labelled.slant * 0.5) + 4;
  const plain = { left: 38, top: 26, right: 12 };
  const fitIn = ({ left, top, right }) =>
    Math.min(largestCell, (available - left - right) / Math.max(1, columns), (tallest - top) / Math.max(1, rows));
  let frame = labelled;
  if (cell === null) {
    cell = fitIn(labelled);
    if (cell < smallestLabelled) {
      frame = plain;
      cell = Math.max(fitIn(plain), 0.25);
    }
    if (cell >= 3) cell = Math.floor(cell);
  } else if (cell < smallestLabelled) {
    frame = plain;
  }
  const { left, top, right } = frame;
  return { cell, left, top, right, labelled: frame === labelled, size: cell < 13 ? Math.max(9, cell - 1) : 12,
           width: left + cell * columns + right, height: top + cell * rows + 10 };
}

// The rows and columns in sight of a window (x, y, width, height) onto the sheet.
function inSight(layout, scene, view) {
  const { cell, left, top } = layout;
  const first = (offset) => Math.max(0, Math.floor(offset / cell));
  const last = (offset, extent, count) => Math.min(count, Math.ceil((offset + extent) / cell) + 1);
  return { i0: first(view.y), i1: last(view.y, view.height - top, scene.map.rows),
           j0: first(view.x), j1: last(view.x, view.width - left, scene.map.columns) };
}

function drawMatrix(surface, scene, layout, view) {
  const { theme } = scene;
  surface.rect(0, 0, view.width, view.height, { fill: theme.paper });
  const seen = inSight(layout, scene, view);
  surface.clip(layout.left, layout.top, view.width - layout.left, view.height - layout.top,
               () => drawCells(surface, scene, layout, view, seen));
  if (layout.labelled) drawTokenAxes(surface, scene, layout, view, seen);
  else drawPositionAxes(surface, scene, layout, view);
}

function drawCells(surface, scene, layout, view, { i0, i1, j0, j1 }) {
  const { map, theme, most, scale, focus, cursor } = scene;
  const { cell } = layout;
  const x = (j) => layout.left + j * cell - view.x;
  const y = (i) => layout.top + i * cell - view.y;
  const width = map.columns * cell;
  const height = map.rows * cell;
  if (cell >= smallestTile && (i1 - i0) * (j1 - j0) <= 20000) {
    surface.rect(x(0), y(0), width, height, { fill: theme.rule, alpha: 0.55 });
    for (let i = i0; i < i1; ++i) {
      for (let j = j0; j < j1; ++j) {
        surface.rect(x(j), y(i), cell - 1, cell - 1, { fill: theme.css[shadeOf(map.weights[i * map.columns + j], most, scale)] });
      }
    }
  } else {
    surface.picture(scene.picture(), x(0), y(0), width, height, cell * (window.devicePixelRatio || 1) < 1);
    surface.rect(x(0) - 0.5, y(0) - 0.5, width + 1, height + 1, { stroke: theme.rule });
  }
  const outline = Math.max(cell - 1, 2);
  if (focus?.side === "queries") surface.rect(x(0) - 1, y(focus.index) - 1, width + 1, outline + 2, { stroke: theme.query });
  if (focus?.side === "keys") surface.rect(x(focus.index) - 1, y(0) - 1, outline + 2, height + 1, { stroke: theme.key });
  if (cursor) surface.rect(x(cursor.j) - 1, y(cursor.i) - 1, outline + 2, outline + 2, { stroke: theme.key });
}

function isMarked(scene, side, index) {
  const { focus, cursor, hint } = scene;
  return [focus, hint].some((token) => token?.side === side && token.index === index) ||
    (cursor !== null && (side === "queries" ? cursor.i : cursor.j) === index);
}

function drawTokenAxes(surface, scene, layout, view, { i0, i1, j0, j1 }) {
  const { theme, sides } = scene;
  const { cell, left, top, size } = layout;
  const styleOf = (side, index, special) => isMarked(scene, side, index)
    ? { size, fill: side === "queries" ? theme.query : theme.key, weight: 600 }
    : { size, fill: special ? theme.soft : theme.ink, italic: special };
  surface.clip(0, top, left, view.height - top, () => {
    for (let i = i0; i < i1; ++i) {
      const style = styleOf("queries", i, sides.queries[i].special);
      const y = top + (i + 0.5) * cell - view.y;
      surface.text(fitted(sides.queries[i].text, left - 14, style), left - 8, y, { ...style, align: "right" });
    }
  });
  surface.clip(left - 10, 0, view.width - left + 10, top, () => {
    for (let j = j0; j < j1; ++j) {
      const style = styleOf("keys", j, sides.keys[j].special);
      const x = left + (j + 0.5) * cell - view.x;
      surface.text(fitted(sides.keys[j].text, longestLabel, style), x, top - 7, { ...style, turn: -60 });
    }
  });
}

// A round step that keeps marks at least `gap` px apart.
function stepFor(cell, gap) {
  for (const step of [1, 2, 5, 10, 16, 32, 64, 128, 256, 512, 1024]) if (step * cell >= gap) return step;
  return 2048;
}

function drawPositionAxes(surface, scene, layout, view) {
  const { theme, map } = scene;
  const { cell, left, top } = layout;
  const style = { size: 10, fill: theme.soft };
  const step = stepFor(cell, 44);
  for (let j = 0; j < map.columns; j += step) {
    const x = left + (j + 0.5) * cell - view.x;
    if (x < left - 1) continue;
    surface.rect(x, top - 5, 1, 4, { fill: theme.soft });
    surface.text(String(j), x, top - 13, { ...style, align: "center" });
  }
  for (let i = 0; i < map.rows; i += step) {
    const y = top + (i + 0.5) * cell - view.y;
    if (y < top - 1) continue;
    surface.rect(left - 5, y, 4, 1, { fill: theme.soft });
    surface.text(String(i), left - 8, y, { ...style, align: "right" });
  }
}

// What lies under a point of the window: {i, j}, {side, index} on an axis, or null.
function matrixAt(scene, layout, view, x, y) {
  const j = Math.floor((x - layout.left + view.x) / layout.cell);
  const i = Math.floor((y - layout.top + view.y) / layout.cell);
  const rowThere = y >= layout.top && i >= 0 && i < scene.map.rows;
  const columnThere = x >= layout.left && j >= 0 && j < scene.map.columns;
  if (rowThere && columnThere) return { i, j };
  if (rowThere && x < layout.left) return { side: "queries", index: i };
  if (columnThere && y < layout.top) return { side: "keys", index: j };
  return null;
}
