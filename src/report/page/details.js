// The numbers of one token, or of the whole map, as lists.

const listLength = 8;

// How much each key is read: the mean over the rows.
function columnMeans({ rows, columns, weights }) {
  const sums = new Float64Array(columns);
  for (let at = 0; at < weights.length; ++at) sums[at % columns] += weights[at];
  return sums.map((sum) => sum / rows);
}

// {name, entries: [{tokens: [[side, index] ...], w, target}]} for both lists; entries are empty where there is no such list.
function listsOf({ map, sides, focus }) {
  const { rows, columns, weights } = map;
  if (!focus) {
    const links = largest(weights.length, listLength, (at) => weights[at]).map(({ index, w }) => {
      const [i, j] = [Math.floor(index / columns), index % columns];
      return { tokens: [["queries", i], ["keys", j]], w, target: { i, j } };
    });
    const means = columnMeans(map);
    const keys = largest(columns, listLength, (j) => means[j])
      .map(({ index, w }) => ({ tokens: [["keys", index]], w, target: { side: "keys", index } }));
    return [{ name: ["Strongest links"], entries: links }, { name: ["Most read, mean over rows"], entries: keys }];
  }
  const token = sides[focus.side][focus.index];
  const asQuery = focus.side === "queries" ? focus.index : data.self ? sameToken(sides.queries, token) : -1;
  const asKey = focus.side === "keys" ? focus.index : data.self ? sameToken(sides.keys, token) : -1;
  const name = (words) => [...named(focus.side, focus.index), words];
  const reads = asQuery < 0 ? [] : largest(columns, listLength, (j) => weights[asQuery * columns + j])
    .map(({ index, w }) => ({ tokens: [["keys", index]], w, target: { i: asQuery, j: index } }));
  const readBy = asKey < 0 ? [] : largest(rows, listLength, (i) => weights[i * columns + asKey])
    .map(({ index, w }) => ({ tokens: [["queries", index]], w, target: { i: index, j: asKey } }));
  return [{ name: name(" attends to"), entries: reads }, { name: name(" is attended by"), entries: readBy }];
}

function sameToken(groups, group) {
  return groups.findIndex((other) => other.members[0] === group.members[0]);
}

function entryRow({ tokens, w, target }, most) {
  const who = element("span", { className: "who" });
  tokens.forEach(([side, index], n) => {
    const group = sides[side][index];
    if (n > 0) who.append(" → ");
    who.append(tokenName(group.text, "label"), " ", element("span", { className: "at" }, String(group.members[0])));
  });
  const bar = element("span", { className: "measure" });
  bar.style.setProperty("--share", `${100 * w / most}%`);
  const number = element("span", { className: "number" }, weightText(w, scene.map.digits));
  const title = "Click to pin";
  return element("li", {}, element("button", { type: "button", className: "entry", title, dataset: target }, who, " ", bar, number));
}

let listed = null;

// Rows stay as they are while they say the same, so that the pointer and the keyboard's focus keep what they are on.
function fillDetails(scene) {
  const key = [scene.map, scene.focus?.side, scene.focus?.index];
  if (listed && key.every((each, n) => each === listed[n])) return;
  listed = key;
  listsOf(scene).forEach(({ name, entries }, n) => {
    const id = ["reads", "read-by"][n];
    byId(`${id}-name`).replaceChildren(...name);
    byId(id).parentElement.hidden = entries.length === 0;
    byId(id).replaceChildren(...entries.map((entry) => entryRow(entry, entries[0].w)));
  });
}
