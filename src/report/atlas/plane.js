// The map: heads that look alike lie near each other.

function planeFigure(width) {
  const heads = own.heads.filter((head) => head.position);
  if (heads.length === 0) return null;
  const side = Math.max(280, Math.min(width, 760));
  const margin = 26;
  const [xs, ys] = [0, 1].map((axis) => heads.map((head) => head.position[axis]));
  const [low, high] = [xs, ys].map((list) => list.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity]))
    .reduce(([lows, highs], [a, b]) => [[...lows, a], [...highs, b]], [[], []]);
  const span = Math.max(high[0] - low[0], high[1] - low[1]) || 1;
  const scale = (side - 2 * margin) / span;
  const height = 2 * margin + (high[1] - low[1]) * scale;
  const room = heads.length > 200 ? 9 : 14;
  const radius = radiiOf(own, room - 2);
  const { patterns, stripes } = stripesIn(own, "map");
  const order = [...heads].sort((a, b) => (a.n === state.n) - (b.n === state.n) || isShown(a) - isShown(b));
  const nodes = order.map((head) => headNode(own, head, margin + (head.position[0] - low[0]) * scale, height - margin - (head.position[1] - low[1]) * scale,
    radius(head), room, { stripes: stripes(head), selected: head.n === state.n }));
  const names = order.filter((head) => isShown(head) && (heads.length <= 200 || head.n === state.n)).map((head) =>
    words(nameOf(head), margin + (head.position[0] - low[0]) * scale, height - margin - (head.position[1] - low[1]) * scale + room + 6, { size: 9 }));
  return figureOf(side, height + 12, patterns, ...names, ...nodes);
}

const planeView = {
  label: "Map",
  name: "Heads that look alike",
  facts: () => "near: their maps are alike",
  figure: (width = 760) => planeFigure(width) ?? emptyFigure("This file has no places of heads."),
  numbers: () => ({ columns: ["layer", "head", "role", "x", "y"],
                    rows: own.heads.filter((head) => head.position && isShown(head)).map((head) => [head.layer, head.head, head.role, ...head.position.slice(0, 2)]) }),
  controls: () => [searchControl(), sizeControl()],
  show: (box) => box.append(headsFigure(planeView.figure(box.clientWidth))),
};

function emptyFigure(text) {
  return figureOf(420, 60, words(text, 10, 30, { anchor: "start" }));
}
