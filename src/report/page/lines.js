// One head as lines: queries on the left, keys on the right, a line as strong as its weight.

const rowHeight = 22;      // px a token
const mostLines = 3000;    // drawn at once when a whole long text is exported
const weakestDrawn = 0.004;  // share of the largest weight that is drawn: fainter lines cannot be seen

function linesLayout(scene, available) {
  const count = Math.max(scene.map.rows, scene.map.columns, 1);
  const side = Math.min(170, Math.max(90, available * 0.32));
  return { side, width: available, height: count * rowHeight + 16, top: 8, left: side + 8, right: available - side - 8 };
}

// Where the tokens of a side are in a window: {shown, y}, `shown` the indices to draw, y(index) px or NaN.
//
// A long text does not fit the window. Opposite a pinned token its strongest partners then stand one below the other, in
// the order of the text, so that its links are in sight wherever they lead.
function placesOf(scene, layout, view, side) {
  const folded = foldedSide(scene, layout, view);
  if (side === folded) {
    const shown = partnersOf(scene, Math.floor((view.height - 2 * layout.top) / rowHeight));
    const rowOf = new Map(shown.map((index, row) => [index, row]));
    return { shown, y: (index) => layout.top + ((rowOf.get(index) ?? NaN) + 0.5) * rowHeight };
  }
  const first = Math.max(0, Math.floor((view.y - layout.top) / rowHeight));
  const end = Math.min(scene.sides[side].length, Math.ceil((view.y + view.height - layout.top) / rowHeight));
  return { shown: Array.from({ length: Math.max(0, end - first) }, (_, k) => first + k),
           y: (index) => layout.top + (index + 0.5) * rowHeight - view.y };
}

function foldedSide(scene, layout, view) {
  const token = tokenOf(scene.pin);
  const side = token?.side === "queries" ? "keys" : "queries";
  return token && scene.sides[side].length * rowHeight + 2 * layout.top > view.height + 1 ? side : null;
}

// Indices of the `count` strongest links of the pinned token, in the order of the text; a pinned cell is one of them.
function partnersOf(scene, count) {
  const { side, index } = tokenOf(scene.pin);
  const { rows, columns, weights } = scene.map;
  const found = side === "queries"
    ? largest(columns, count, (j) => weights[index * columns + j])
    : largest(rows, count, (i) => weights[i * columns + index]);
  const indices = found.map((each) => each.index);
  if ("j" in scene.pin && !indices.includes(scene.pin.j)) indices.splice(count - 1, 1, scene.pin.j);
  return indices.sort((a, b) => a - b);
}

// The links to draw, weakest first: all of the focused token, else those between tokens in sight, at most `mostLines`.
function linksInScene(scene, places, folded) {
  const { map, focus } = scene;
  const all = (count) => Array.from({ length: count }, (_, index) => index);
  let rows = places.queries.shown;
  let columns = places.keys.shown;
  if (focus?.side === "queries") [rows, columns] = [[focus.index], folded === "keys" ? columns : all(map.columns)];
  if (focus?.side === "keys") [rows, columns] = [folded === "queries" ? rows : all(map.rows), [focus.index]];
  const links = [];
  for (const i of rows) {
    for (const j of columns) {
      const w = map.weights[i * map.columns + j];
      if (w > 0) links.push({ i, j, w });
    }
  }
  const most = focus ? links.reduce((a, { w }) => Math.max(a, w), 0) : map.most;
  return links.filter(({ w }) => w > weakestDrawn * most).sort((a, b) => a.w - b.w).slice(-mostLines);
}

function drawLines(surface, scene, layout, view) {
  const { theme, focus, cursor, map } = scene;
  surface.rect(0, 0, view.width, view.height, { fill: theme.paper });
  const places = { queries: placesOf(scene, layout, view, "queries"), keys: placesOf(scene, layout, view, "keys") };
  const folded = foldedSide(scene, layout, view);
  const links = linksInScene(scene, places, folded);
  const most = focus && links.length > 0 ? links[links.length - 1].w : map.most;
  const stroke = focus?.side === "keys" ? theme.key : theme.query;
  const draw = (i, j, style) => {
    const [y1, y2] = [places.queries.y(i), places.keys.y(j)];
    if (y1 === y1 && y2 === y2) surface.line(layout.left, y1, layout.right, y2, style);
  };
  for (const { i, j, w } of links) {
    const share = w / most;
    draw(i, j, { stroke, alpha: focus ? 0.15 + 0.85 * share : share, width: 0.8 + 2.2 * w });
  }
  if (cursor) draw(cursor.i, cursor.j, { stroke: theme.key, alpha: 1, width: 2.5 });
  drawSide(surface, scene, layout, places, "queries", folded, most);
  drawSide(surface, scene, layout, places, "keys", folded, most);
}

// One column of tokens. Opposite a focused token each carries its weight, as a number and as a tint.
function drawSide(surface, scene, layout, places, side, folded, most) {
  const { theme, focus, map } = scene;
  const groups = scene.sides[side];
  const atLeft = side === "queries";
  const opposite = focus && focus.side !== side;
  const accent = atLeft ? theme.query : theme.key;
  const room = layout.side - (opposite ? 46 : 0);
  const x = atLeft ? layout.left - layout.side - 4 : layout.right - 2;
  for (const index of places[side].shown) {
    const y = places[side].y(index);
    const marked = isMarked(scene, side, index);
    const w = !opposite ? 0 : atLeft ? map.weights[index * map.columns + focus.index] : map.weights[focus.index * map.columns + index];
    const strong = w > weakestDrawn * most;
    if (strong) surface.rect(x, y - 10, layout.side + 6, 20, { fill: focus.side === "keys" ? theme.key : theme.query, alpha: theme.tint * w / most, radius: 3 });
    if (marked) surface.rect(x + 1, y - 10, layout.side + 4, 20, { stroke: accent, radius: 3 });
    const style = { size: 12.5, weight: marked ? 700 : 400, italic: groups[index].special, fill: theme.ink, align: atLeft ? "right" : "left" };
    const name = side === folded ? `${groups[index].members[0]} ${groups[index].text}` : groups[index].text;
    surface.text(fitted(name, room - 4, style), atLeft ? layout.left - 4 : layout.right + 4, y, style);
    if (strong) {
      surface.text(weightText(w, map.digits, 3), atLeft ? x + 4 : x + layout.side + 2, y,
                   { size: 10.5, fill: theme.ink, align: atLeft ? "left" : "right" });
    }
  }
}

// The token under a point of the window, or null.
function linesAt(scene, layout, view, x, y) {
  const side = x <= layout.left + 12 ? "queries" : x >= layout.right - 12 ? "keys" : null;
  if (!side) return null;
  const places = placesOf(scene, layout, view, side);
  const index = places.shown.find((each) => Math.abs(places.y(each) - y) <= rowHeight / 2);
  return index === undefined ? null : { side, index };
}
