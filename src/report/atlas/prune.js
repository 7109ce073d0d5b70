// What removing heads costs: the measured points of a JSON of `multihead prune`, opened from a file, and the heads gone by then.

let pruned = null;

const qualities = { loss: "loss: mean of 1 − cosine with the whole model’s vectors", agreement: "ranking: correlation of the similarities of all pairs",
                    nearest: "nearest: share with the same nearest sentence" };

function bandOf(value) {
  const { min, median, max } = objectOr(value);
  return [min, median, max].every((x) => numberOr(x) !== null) ? [min, median, max] : null;
}

// Throws an Error whose text is the reason. `gone` of a point: names of all heads that are away by then.
function prunedOf(json) {
  const curve = listOr(objectOr(json).curve).map(objectOr);
  if (curve.length === 0 || curve.length > mostHeadsOfFile) throw new Error("it has no curve");
  const points = [{ removed: 0, gone: new Set(), values: new Map([["loss", 0], ["agreement", 1], ["nearest", 1]]), bands: new Map(), compensated: true }];
  for (const point of curve) {
    const last = points[points.length - 1];
    if (!Number.isInteger(point.removed) || point.removed <= last.removed) throw new Error("the heads that its curve removes do not grow in number");
    const names = listOr(point.heads).map(objectOr).filter((head) => isPlace(head.layer) && isPlace(head.head)).map(nameOf);
    const by = (read) => new Map(Object.keys(qualities).map((name) => [name, read(name)]));
    points.push({ removed: point.removed, gone: new Set([...last.gone, ...names]), values: by((name) => numberOr(point[name])),
                  bands: by((name) => bandOf(objectOr(point.random)[name])), compensated: point.compensated !== false });
  }
  return { points, method: textOr(json.method, ""), title: proseOr(json.model, "").split("/").filter(Boolean).pop() ?? "" };
}

function curveFigure(width) {
  const [left, top, bottom, right] = [56, 14, 40, 20];
  const size = { w: Math.max(300, Math.min(width, 720)), h: 280 };
  const points = pruned.points.filter((point) => point.values.get(state.quality) !== null);
  const value = (point) => point.values.get(state.quality);
  const band = (point) => point.removed === 0 ? [value(point), value(point), value(point)] : point.bands.get(state.quality) ?? null;
  const banded = points.filter(band);
  const all = [...points.map(value), ...banded.flatMap(band)];
  const [low, high] = [all.reduce((a, b) => Math.min(a, b), Infinity), all.reduce((a, b) => Math.max(a, b), -Infinity)];
  const most = pruned.points[pruned.points.length - 1].removed;
  const x = (removed) => left + removed / most * (size.w - left - right);
  const y = (v) => top + (1 - (v - low) / (high - low || 1)) * (size.h - top - bottom);
  const path = (list, read) => list.map((point, k) => `${k === 0 ? "M" : "L"}${round2(x(point.removed))} ${round2(y(read(point)))}`).join("");
  const parts = [drawn("path", { d: `M${left} ${top}V${size.h - bottom}H${size.w - right}`, fill: "none", stroke: theme().soft })];
  if (banded.length > 1) {
    const upper = path(banded, (point) => band(point)[2]);
    const lower = path([...banded].reverse(), (point) => band(point)[0]).replace("M", "L");
    parts.push(drawn("path", { d: `${upper}${lower}Z`, fill: theme().key, opacity: 0.22 }),
      drawn("path", { d: path(banded, (point) => band(point)[1]), fill: "none", stroke: theme().key, "stroke-width": 1.5, "stroke-dasharray": "5 4" }));
  }
  parts.push(drawn("path", { d: path(points, value), fill: "none", stroke: theme().query, "stroke-width": 2 }));
  pruned.points.forEach((point, k) => {
    if (value(point) === null) return;
    const name = `${point.removed} removed: ${shortNumber(value(point))}`;
    parts.push(drawn("circle", { cx: x(point.removed), cy: y(value(point)), r: k === state.step ? 7 : 4, fill: point.compensated ? theme().query : theme().paper, stroke: theme().query, "stroke-width": 2 }, drawn("title", {}, name)));
    parts.push(words(String(point.removed), x(point.removed), size.h - bottom + 14));
  });
  for (const each of new Set([low, high])) parts.push(words(shortNumber(each), left - 6, y(each), { anchor: "end" }));
  parts.push(words("heads removed", (left + size.w - right) / 2, size.h - 8));
  return figureOf(size.w, size.h, ...parts);
}

function stepText() {
  const point = pruned.points[state.step];
  const value = point.values.get(state.quality);
  const band = point.bands.get(state.quality);
  return `${point.removed} of ${own.heads.length} heads removed: ${state.quality} ${shortNumber(value)}` + (band ? `; removed at random ${shortNumber(band[0])} to ${shortNumber(band[2])}` : "") +
    (point.compensated ? "" : "; making up for them was worse than not, so it was left out");
}

function pruneFigure(width) {
  if (pruned === null) return emptyFigure("No report of multihead prune is open.");
  const [curve, grid] = [curveFigure(width), gridFigure(own, { figure: "prune", selected: state.n, width, gone: (head) => pruned.points[state.step].gone.has(nameOf(head)) })];
  const h = (figure) => Number(figure.getAttribute("height"));
  const w = (figure) => Number(figure.getAttribute("width"));
  grid.setAttribute("y", h(curve) + 30);
  return figureOf(Math.max(w(curve), w(grid)), h(curve) + h(grid) + 30, curve, words(stepText(), 10, h(curve) + 14, { anchor: "start", fill: theme().ink }), grid);
}

function pruneControls() {
  const input = element("input", { type: "file", accept: ".json,application/json", id: "prune-file", onchange: () => input.files[0] && openPruned(input.files[0]) });
  const file = element("label", {}, "Report of multihead prune (JSON)", input);
  if (pruned === null) return [file];
  const slider = element("input", { type: "range", id: "prune-step", min: 0, max: pruned.points.length - 1, step: 1, value: state.step,
                                    oninput: () => { state.step = Number(slider.value); showFigure(); sayStep(); } });
  const sayStep = () => { slider.setAttribute("aria-valuetext", stepText()); readOut(stepText()); };
  slider.setAttribute("aria-valuetext", stepText());
  return [file, element("label", {}, "Heads removed", slider), choiceControl("Quality", Object.keys(qualities), qualities, "quality")];
}

async function openPruned(file) {
  try {
    const found = prunedOf(await jsonOf(file));
    const here = [...found.points[found.points.length - 1].gone].filter((name) => own.at.has(name)).length;
    if (here < found.points[found.points.length - 1].gone.size) throw new Error("it removes heads that this model does not have");
    pruned = found;
    state.step = found.points.length - 1;
    showAll(false);
    readOut(`${visibleText(file.name)}: ${found.points.length - 1} steps, ${stepText()}`);
  } catch (error) {
    readOut(`${visibleText(file.name)} was not opened: ${error.message}. It should be what multihead prune --json writes.`, true);
  }
}

const pruneView = {
  label: "Prune",
  name: "Removed heads",
  facts: () => pruned === null ? "open what multihead prune --json wrote for this model" : `${pruned.title}, method ${pruned.method}; line: measured, band: from the best to the worst of heads drawn at random`,
  figure: (width = 720) => pruneFigure(width),
  numbers: () => ({ columns: ["removed", ...Object.keys(qualities), ...Object.keys(qualities).flatMap((name) => ["min", "median", "max"].map((each) => `random ${name} ${each}`))],
                    rows: (pruned?.points ?? []).map((point) => [point.removed, ...point.values.values(), ...Object.keys(qualities).flatMap((name) => point.bands.get(name) ?? [null, null, null])]) }),
  controls: pruneControls,
  show: (box) => box.append(headsFigure(pruneView.figure(box.clientWidth))),
};
