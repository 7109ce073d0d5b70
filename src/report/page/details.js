// The text with each token tinted, and the numbers of one token as lists.

// Puts one span a token into `box`; markup in a token stays text.
function fillText(box, scene) {
  box.replaceChildren();
  const sides = data.self ? [["keys", ""]] : [["queries", "Queries"], ["keys", "Keys"]];
  for (const [side, name] of sides) {
    const line = document.createElement("p");
    if (name) {
      const label = document.createElement("b");
      label.textContent = name;
      line.append(label, " ");
    }
    scene.sides[side].forEach((group, index) => {
      const span = document.createElement("span");
      span.className = group.special ? "token special" : "token";
      span.dataset.side = data.self ? "queries" : side;
      span.dataset.index = index;
      span.textContent = group.text;
      line.append(span, " ");
    });
    box.append(line);
  }
}

// Tint of each key: its weight from the focused query, the weight of the focused key from it, or, with no focus, the
// mean of its column.
function tintText(box, scene) {
  const { map, focus, theme } = scene;
  const { rows, columns, weights } = map;
  const values = { queries: null, keys: new Float32Array(columns) };
  if (focus?.side === "keys") {
    values.queries = Float32Array.from({ length: rows }, (_, i) => weights[i * columns + focus.index]);
    values.keys = data.self ? values.queries : null;
  } else if (focus) {
    values.keys = weights.slice(focus.index * columns, (focus.index + 1) * columns);
  } else {
    for (let at = 0; at < weights.length; ++at) values.keys[at % columns] += weights[at] / rows;
  }
  const base = focus?.side === "keys" ? theme.key : theme.query;
  const largestOf = (list) => list ? list.reduce((a, b) => Math.max(a, b), 0) : 0;
  const most = { queries: largestOf(values.queries), keys: largestOf(values.keys) };
  box.style.setProperty("--hue", base);
  for (const span of box.querySelectorAll(".token")) {
    const index = Number(span.dataset.index);
    const side = data.self ? "keys" : span.dataset.side;
    const share = most[side] > 0 ? values[side][index] / most[side] : 0;
    span.style.setProperty("--tint", `${Math.round(55 * Math.sqrt(share))}%`);
    span.classList.toggle("focused", focus?.index === index && (data.self || focus.side === side));
  }
}

function fillList(list, entries) {
  const most = entries.length > 0 ? entries[0].w : 1;
  list.replaceChildren(...entries.map(({ text, w }) => {
    const row = document.createElement("li");
    const label = document.createElement("span");
    label.className = "label";
    label.textContent = text;
    const bar = document.createElement("span");
    bar.className = "measure";
    bar.style.setProperty("--share", `${100 * w / most}%`);
    const number = document.createElement("span");
    number.className = "number";
    number.textContent = w.toFixed(4);
    row.append(label, bar, number);
    return row;
  }));
}

const listLength = 8;

function fillDetails(scene) {
  const { map, sides, focus } = scene;
  const { rows, columns, weights } = map;
  const entries = (found, groups) => found.map(({ index, w }) => ({ text: groups[index].text, w }));
  const show = (id, name, list) => {
    byId(`${id}-name`).textContent = name;
    byId(id).parentElement.hidden = list.length === 0;
    fillList(byId(id), list);
  };
  const rowList = (i) => entries(largest(columns, listLength, (j) => weights[i * columns + j]), sides.keys);
  const columnList = (j) => entries(largest(rows, listLength, (i) => weights[i * columns + j]), sides.queries);
  if (!focus) {
    show("reads", "Strongest links", largest(weights.length, listLength, (at) => weights[at]).map(({ index, w }) => {
      const [i, j] = [Math.floor(index / columns), index % columns];
      return { text: `${sides.queries[i].text} → ${sides.keys[j].text}`, w };
    }));
    const mean = new Float64Array(columns);
    for (let at = 0; at < weights.length; ++at) mean[at % columns] += weights[at] / rows;
    show("read-by", "Most read, mean over rows", entries(largest(columns, listLength, (j) => mean[j]), sides.keys));
    return;
  }
  const name = sides[focus.side][focus.index].text;
  const asQuery = focus.side === "queries" ? focus.index : data.self ? sameToken(sides.queries, sides.keys[focus.index]) : -1;
  const asKey = focus.side === "keys" ? focus.index : data.self ? sameToken(sides.keys, sides.queries[focus.index]) : -1;
  show("reads", `“${name}” attends to`, asQuery >= 0 ? rowList(asQuery) : []);
  show("read-by", `“${name}” is attended by`, asKey >= 0 ? columnList(asKey) : []);
}

function sameToken(groups, group) {
  return groups.findIndex((other) => other.members[0] === group.members[0]);
}
