// Numbers as text.

const wordsOf = (name) => name.replaceAll("_", " ");

function shortNumber(x) {
  if (x === null || x === undefined) return "–";
  const size = Math.abs(x);
  const text = size !== 0 && (size < 0.001 || size >= 1e6) ? x.toExponential(2) : x.toFixed(size < 0.1 ? 3 : size < 100 ? 2 : 0);
  return text.replaceAll("-", "−");
}

// Lifts are shares: three decimals are what their intervals leave.
function liftText(x) {
  return x === null ? "–" : x.toFixed(3).replace(/^-0\.000$/, "0.000").replace("-", "−");
}

// What a head has a number of: {name, value(head)}, of all that this model has.
function measuresOf(model) {
  const found = new Map();
  const add = (name, value) => { if (!found.has(name) && model.heads.some((head) => value(head) !== null)) found.set(name, value); };
  add("importance", (head) => head.importance);
  add("replaceable", (head) => head.replaceable);
  for (const kind of ["importances", "statistics"]) {
    const names = new Set(model.heads.flatMap((head) => [...head[kind].keys()]));
    for (const name of names) add(kind === "importances" ? `importance: ${name}` : name, (head) => head[kind].get(name) ?? null);
  }
  return found;
}
