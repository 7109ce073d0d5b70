// The matrix of all pairs.

const measureWords = { looks_alike: "looks alike", writes_alike: "writes alike", cosine: "cosine of what is written" };

// Indices of heads in the order of rows and columns.
function pairOrder() {
  const order = own.heads.map((head) => head.n);
  if (state.order === "layers") return order;
  const size = (n) => own.groups.get(own.heads[n].cluster)?.length ?? 1;
  return order.sort((a, b) => size(b) - size(a) || (own.heads[a].cluster ?? 0) - (own.heads[b].cluster ?? 0) || a - b);
}

// [r, g, b]: one hue from paper to ink; with a sign, blue above 0 and orange below.
function pairColour(x, signed) {
  if (x === null) return channels(theme().rule);
  const strength = Math.min(1, Math.abs(x));
  if (!signed) return theme().ramp[Math.round(255 * Math.max(0, Math.min(1, x)))];
  const [paper, full] = [channels(theme().paper), channels(x < 0 ? theme().key : theme().query)];
  return paper.map((c, k) => Math.round(c + (full[k] - c) * strength));
}

// One pixel a pair.
function pairPicture(pairs, order) {
  const canvas = element("canvas", { width: order.length, height: order.length });
  const context = canvas.getContext("2d");
  const image = context.createImageData(order.length, order.length);
  order.forEach((i, row) => order.forEach((j, column) => {
    image.data.set([...pairColour(pairs[i][j], state.measure === "cosine"), 255], 4 * (row * order.length + column));
  }));
  context.putImageData(image, 0, 0);
  return canvas.toDataURL("image/png");
}

function pairLayout(width) {
  const left = 46;
  const count = own.heads.length;
  return { left, cell: Math.max(2, Math.min(18, (width - left - 8) / count)), count };
}

function pairFigure(width) {
  const pairs = own.similarity.get(state.measure);
  if (!pairs) return null;
  const order = pairOrder();
  const { left, cell, count } = pairLayout(width);
  const side = cell * count;
  const parts = [drawn("image", { x: left, y: left, width: side, height: side, preserveAspectRatio: "none", style: "image-rendering:pixelated", href: pairPicture(pairs, order) })];
  const skip = state.order === "layers" ? 0 : Math.max(1, Math.ceil(16 / cell));
  order.forEach((n, at) => {
    const head = own.heads[n];
    const begins = skip > 0 ? at % skip === 0 : at === 0 || own.heads[order[at - 1]].layer !== head.layer;
    if (!begins) return;
    const [place, name] = [left + at * cell, skip > 0 ? nameOf(head) : String(head.layer)];
    parts.push(words(name, left - 6, place + (skip > 0 ? cell / 2 : 7), { anchor: "end", size: 10 }));
    const across = words(name, 0, 0, { anchor: "start", size: 10 });
    across.setAttribute("transform", `translate(${round2(place + (skip > 0 ? cell / 2 : 5))} ${left - 6}) rotate(-90)`);
    parts.push(across);
    if (skip === 0 && at > 0) parts.push(drawn("path", { d: `M${round2(place)} ${left}v${round2(side)}M${left} ${round2(place)}h${round2(side)}`, stroke: theme().soft, "stroke-width": 0.6 }));
  });
  const frame = (i, j, stroke) => drawn("rect", { x: left + j * cell - 1, y: left + i * cell - 1, width: cell + 2, height: cell + 2, fill: "none", stroke, "stroke-width": 2 });
  if (state.with !== null && other === null) parts.push(frame(order.indexOf(state.n), order.indexOf(state.with), theme().key));
  parts.push(words(state.order === "layers" ? "layer" : "", 4, left - 10, { anchor: "start", size: 10 }));
  return figureOf(left + side + 8, left + side + 8, ...parts);
}

function pairText(i, j) {
  const [a, b] = [own.heads[i], own.heads[j]];
  const value = (name) => own.similarity.has(name) ? `${measureWords[name]} ${shortNumber(own.similarity.get(name)[i][j])}` : null;
  return `${nameOf(a)} and ${nameOf(b)}: ${measureNames.map(value).filter(Boolean).join(", ")}`;
}

// The pointer and the keys choose a pair: the row becomes the open head, the column the one beside it.
function makePairsOpen(figure) {
  const order = pairOrder();
  const { left, cell, count } = pairLayout(Number(figure.dataset.width));
  const pairAt = (event) => {
    const box = figure.getBoundingClientRect();
    const [j, i] = [event.clientX - box.left, event.clientY - box.top].map((at) => Math.floor((at - left) / cell));
    return i >= 0 && j >= 0 && i < count && j < count ? [order[i], order[j]] : null;
  };
  figure.addEventListener("pointermove", (event) => {
    const pair = pairAt(event);
    if (pair) readOut(pairText(...pair));
  });
  figure.addEventListener("click", (event) => {
    const pair = pairAt(event);
    if (pair) openPair(...pair);
  });
  figure.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const at = [order.indexOf(state.n), order.indexOf(state.with ?? state.n)].map((x, k) => Math.max(0, Math.min(count - 1, x + step[k])));
    openPair(order[at[0]], order[at[1]]);
  });
}

function openPair(i, j) {
  if (other !== null) closeOther();
  state.with = j;
  openHead(i, true);
  readOut(pairText(i, j));
}

// Pairs of heads that are shown, the most alike first.
function pairNumbers() {
  const rows = [];
  const kinds = measureNames.filter((name) => own.similarity.has(name));
  for (const a of own.heads.filter(isShown)) {
    for (const b of own.heads) {
      if (b.n > a.n && isShown(b)) rows.push([a.layer, a.head, b.layer, b.head, ...kinds.map((name) => own.similarity.get(name)[a.n][b.n])]);
    }
  }
  const sorted = 4 + kinds.indexOf(state.measure);
  if (sorted >= 4) rows.sort((a, b) => (b[sorted] ?? -2) - (a[sorted] ?? -2));
  return { columns: ["layer", "head", "other layer", "other head", ...kinds.map((name) => measureWords[name])], rows };
}

const similarityView = {
  label: "Similarity",
  name: "Pairs of heads",
  facts: () => own.similarity.has(state.measure) ? `${measureWords[state.measure]}, ${state.measure === "cosine" ? "−1 orange, 0 as the paper, 1 blue" : "0 as the paper, the stronger the colour, the more alike"}` : "",
  figure: (width = 1000) => pairFigure(width) ?? emptyFigure(own.similarity.size > 0 ? "This file has no such numbers." : "This file does not compare heads."),
  numbers: pairNumbers,
  controls: () => [choiceControl("Measure", measureNames.filter((name) => own.similarity.has(name)), measureWords, "measure"),
                   choiceControl("Order", ["layers", "groups"], { layers: "layers", groups: "groups that write alike" }, "order")],
  show: (box) => {
    const figure = similarityView.figure(box.clientWidth);
    figure.dataset.width = box.clientWidth;
    if (own.similarity.has(state.measure)) {
      for (const [name, value] of [["tabindex", 0], ["role", "application"], ["aria-label", "Pairs of heads: arrow keys choose a pair"]]) figure.setAttribute(name, value);
      makePairsOpen(figure);
    }
    box.append(figure);
  },
};
