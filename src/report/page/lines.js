// One head as lines: queries on the left, keys on the right, a line as strong as its weight.

const rowHeight = 22;      // px a token
const mostLines = 3000;    // drawn at once when a whole long text is exported
const weakestDrawn = 0.004;  // share of the largest weight: fainter lines cannot be seen

function linesLayout(scene, available) {
  const count = Math.max(scene.map.rows, scene.map.columns, 1);
  const side = Math.min(150, Math.max(90, available * 0.27));
  return { side, width: available, height: count * rowHeight + 16, top: 8, left: side + 8, right: available - side - 8 };
}

// The links to draw, weakest first: all of the focused token, else those between tokens in sight, at most `mostLines`.
function linksInScene(scene, layout, view) {
  const { map, focus } = scene;
  let rows = inWindow(layout, view, map.rows);
  let columns = inWindow(layout, view, map.columns);
  if (focus?.side === "queries") [rows, columns] = [[focus.index, focus.index + 1], [0, map.columns]];
  if (focus?.side === "keys") [rows, columns] = [[0, map.rows], [focus.index, focus.index + 1]];
  const links = [];
  for (let i = rows[0]; i < rows[1]; ++i) {
    for (let j = columns[0]; j < columns[1]; ++j) {
      const w = map.weights[i * map.columns + j];
      if (w > weakestDrawn * map.most) links.push({ i, j, w });
    }
  }
  return links.sort((a, b) => a.w - b.w).slice(-mostLines);
}

// [first, end) of the tokens that a window shows.
function inWindow(layout, view, count) {
  return [Math.max(0, Math.floor((view.y - layout.top) / rowHeight)),
          Math.min(count, Math.ceil((view.y + view.height - layout.top) / rowHeight))];
}

function drawLines(surface, scene, layout, view) {
  const { theme, focus } = scene;
  surface.rect(0, 0, view.width, view.height, { fill: theme.paper });
  const links = linksInScene(scene, layout, view);
  const most = focus && links.length > 0 ? links[links.length - 1].w : scene.map.most;
  const centre = (index) => layout.top + (index + 0.5) * rowHeight - view.y;
  const stroke = focus?.side === "keys" ? theme.key : theme.line;
  for (const { i, j, w } of links) {
    const share = w / most;
    surface.line(layout.left, centre(i), layout.right, centre(j), { stroke, alpha: focus ? 0.15 + 0.85 * share : share, width: 0.8 + 2.2 * w });
  }
  drawSide(surface, scene, layout, view, "queries", new Map(links.map(({ i, w }) => [i, w])), most);
  drawSide(surface, scene, layout, view, "keys", new Map(links.map(({ j, w }) => [j, w])), most);
}

// One column of tokens. Opposite a focused token each carries its weight, as a number and as a tint.
function drawSide(surface, scene, layout, view, side, weightOf, most) {
  const { theme, focus } = scene;
  const groups = scene.sides[side];
  const atLeft = side === "queries";
  const opposite = focus && focus.side !== side;
  const accent = atLeft ? theme.query : theme.key;
  const room = layout.side - (opposite ? 42 : 0);
  const [first, end] = inWindow(layout, view, groups.length);
  for (let index = first; index < end; ++index) {
    const y = layout.top + (index + 0.5) * rowHeight - view.y;
    const marked = isMarked(scene, side, index);
    const x = atLeft ? layout.left - layout.side - 4 : layout.right - 2;
    const w = opposite ? weightOf.get(index) ?? 0 : 0;
    if (w > 0) surface.rect(x, y - 10, layout.side + 6, 20, { fill: focus.side === "keys" ? theme.key : theme.query, alpha: 0.34 * w / most, radius: 3 });
    if (marked) surface.rect(x, y - 10, layout.side + 6, 20, { fill: accent, alpha: 0.14, radius: 3 });
    const style = { size: 12.5, weight: marked ? 600 : 400, fill: marked ? accent : groups[index].special ? theme.soft : theme.ink,
                    align: atLeft ? "right" : "left" };
    surface.text(fitted(groups[index].text, room - 4, style), atLeft ? layout.left - 4 : layout.right + 4, y, style);
    if (opposite && w >= 0.0005) {
      surface.text(w.toFixed(3), atLeft ? x + 4 : x + layout.side + 2, y,
                   { size: 10.5, fill: theme.soft, align: atLeft ? "left" : "right" });
    }
  }
}

// The token under a point of the window, or null.
function linesAt(scene, layout, view, x, y) {
  const index = Math.floor((y + view.y - layout.top) / rowHeight);
  const side = x <= layout.left + 12 ? "queries" : x >= layout.right - 12 ? "keys" : null;
  return side && index >= 0 && index < scene.sides[side].length ? { side, index } : null;
}
