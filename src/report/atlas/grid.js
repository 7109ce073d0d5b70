// The grid: layers down, heads across.

// Radius of each head: its area is the chosen number, or one size for all.
function radiiOf(model, most) {
  const value = state.size === null ? null : measuresOf(model).get(state.size);
  if (!value) return () => most * 0.88;
  const values = model.heads.map(value);
  const largest = values.reduce((a, b) => Math.max(a, b ?? 0), 0);
  return (head) => {
    const x = values[head.n];
    return x === null || !(x > 0) || largest === 0 ? most * 0.2 : most * Math.max(0.2, Math.sqrt(x / largest));
  };
}

function describeHead(head, model) {
  const parts = [`Layer ${head.layer}, head ${head.head}: ${roleText(head)}`];
  const value = state.size === null ? null : measuresOf(model).get(state.size);
  if (value) parts.push(`${wordsOf(state.size)} ${shortNumber(value(head))}`);
  if (model.groups.has(head.cluster)) parts.push(`in group ${head.cluster} of ${model.groups.get(head.cluster).length} that write alike`);
  return parts.join("; ");
}

// A head as it stands in a figure, at (x, y); on the page it can be opened.
function headNode(model, head, x, y, r, room, { stripes, selected, marked, gone }) {
  const node = drawn("g", { transform: `translate(${round2(x)} ${round2(y)})`, class: "cell", role: "button", tabindex: selected ? 0 : -1, "data-n": head.n,
                            "aria-pressed": selected, "aria-label": describeHead(head, model), opacity: isShown(head) ? null : 0.16 });
  if (gone) node.setAttribute("aria-label", `${node.getAttribute("aria-label")}; removed`);
  node.append(drawn("rect", { x: -room, y: -room, width: 2 * room, height: 2 * room, fill: "none", "pointer-events": "all" }));
  node.append(...circleOf(head, r, stripes));
  if (model.groups.has(head.cluster)) {
    node.append(drawn("circle", { r: Math.min(room - 2, r + 3), fill: "none", stroke: theme().ink, "stroke-width": 1.5 }));
    node.append(words(String(head.cluster), room * 0.72, -room * 0.72, { size: 9, fill: theme().ink }));
  }
  if (gone) node.append(drawn("path", { d: `M${4 - room} ${4 - room}L${room - 4} ${room - 4}M${4 - room} ${room - 4}L${room - 4} ${4 - room}`, stroke: theme().key, "stroke-width": 3 }));
  if (marked) node.append(drawn("path", { d: `M${-room} ${-room}h7l-7 7z`, fill: theme().key }));
  node.append(drawn("rect", { class: "focus", x: -room + 1, y: -room + 1, width: 2 * room - 2, height: 2 * room - 2, rx: 5, fill: "none",
                              stroke: selected ? theme().ink : "none", "stroke-width": 1.5 }));
  node.append(drawn("title", {}, describeHead(head, model)));
  return node;
}

function round2(x) {
  return Math.round(x * 100) / 100;
}

// {patterns, stripes(head)}: what the second roles need.
function stripesIn(model, figure) {
  const made = new Map();
  for (const head of model.heads) {
    const label = secondRole(head);
    if (label !== null && !made.has(label)) made.set(label, stripesOf(label, figure));
  }
  return { patterns: drawn("defs", {}, ...[...made.values()].map((each) => each.pattern)), stripes: (head) => made.get(secondRole(head))?.id ?? null };
}

// `marked(head)`: a corner for heads that differ; `gone(head)`: a cross for those that are removed. `width`: what there is of room.
function gridFigure(model, { figure, selected, marked = () => false, gone = () => false, width }) {
  const [left, top] = [46, 26];
  const right = model.layers.size > 0 ? 76 : 8;
  const cell = Math.max(30, Math.min(58, Math.floor((width - left - right) / model.mostHeads)));
  const radius = radiiOf(model, cell / 2 - 4);
  const { patterns, stripes } = stripesIn(model, figure);
  const parts = [patterns];
  for (let h = 0; h < model.mostHeads; ++h) parts.push(words(String(h), left + (h + 0.5) * cell, 12));
  if (right > 8) parts.push(words("different", left + model.mostHeads * cell + 10, 12, { anchor: "start", size: 11 }));
  model.layerNumbers.forEach((layer, row) => {
    const y = top + (row + 0.5) * cell;
    parts.push(words(row === 0 ? `layer ${layer}` : String(layer), left - 8, y, { anchor: "end", size: row === 0 ? 11 : 12 }));
    const heads = model.heads.filter((head) => head.layer === layer);
    const effective = model.layers.get(layer)?.effective ?? null;
    if (effective !== null) parts.push(words(`${effective.toFixed(1)} of ${heads.length}`, left + model.mostHeads * cell + 10, y, { anchor: "start" }));
    const there = new Set(heads.map((head) => head.head));
    for (let h = 0; h < model.mostHeads; ++h) {
      if (!there.has(h)) parts.push(drawn("circle", { cx: left + (h + 0.5) * cell, cy: y, r: 1.5, fill: theme().soft }));
    }
    for (const head of heads) {
      parts.push(headNode(model, head, left + (head.head + 0.5) * cell, y, radius(head), cell / 2, { stripes: stripes(head), selected: head.n === selected, marked: marked(head), gone: gone(head) }));
    }
  });
  return figureOf(left + model.mostHeads * cell + right, top + model.layerNumbers.length * cell + 6, ...parts);
}

// Columns and rows of all heads that are shown.
function headNumbers(model) {
  const all = measuresOf(model);
  const roles = [...new Set(model.heads.flatMap((head) => [...head.scores.keys()]))];
  const columns = ["layer", "head", "role", "labels", "group", ...all.keys(), ...roles.map((role) => `lift ${role}`)];
  const rows = model.heads.filter(isShown).map((head) => [head.layer, head.head, head.role, roleText(head), head.cluster, ...[...all.values()].map((value) => value(head)),
    ...roles.map((role) => head.scores.get(role)?.lift ?? null)]);
  return { columns, rows };
}

// The arrow keys walk over heads; the nearest in the direction is next.
function walk(figure, from, key, go) {
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  const place = (node) => node.getAttribute("transform").match(/-?[\d.]+/g).map(Number);
  const [x0, y0] = place(from);
  let [best, least] = [null, Infinity];
  for (const node of figure.querySelectorAll(".cell")) {
    const [x, y] = place(node);
    const along = (x - x0) * dx + (y - y0) * dy;
    const across = Math.abs((x - x0) * dy) + Math.abs((y - y0) * dx);
    if (along > 0.5 && along + 3 * across < least) [best, least] = [node, along + 3 * across];
  }
  if (best) go(Number(best.dataset.n));
}

// Clicks and keys of a figure of heads; `open(n)` shows one.
function makeHeadsOpen(figure, open) {
  figure.addEventListener("click", (event) => {
    const node = event.target.closest(".cell");
    if (node) open(Number(node.dataset.n));
  });
  figure.addEventListener("keydown", (event) => {
    const node = event.target.closest(".cell");
    if (!node || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") open(Number(node.dataset.n));
    else if (event.key.startsWith("Arrow")) walk(figure, node, event.key, open);
    else return;
    event.preventDefault();
  });
}

const gridView = {
  label: "Grid",
  name: "Heads",
  facts: () => "layers down, heads across" + (state.size === null ? "" : `; size: ${wordsOf(state.size)}`),
  figure: (width = 1000) => gridFigure(own, { figure: "grid", selected: state.n, width }),
  numbers: () => headNumbers(own),
  controls: () => [searchControl(), sizeControl()],
  show: (box) => box.append(headsFigure(gridView.figure(box.clientWidth))),
};

// A figure whose heads open with the page.
function headsFigure(figure) {
  makeHeadsOpen(figure, (n) => openHead(n, true));
  return figure;
}
