// The text with each token tinted.

// Puts one span a token into `box`; markup in a token stays text.
function fillText(box, scene) {
  box.replaceChildren();
  const names = data.self ? [["keys", ""]] : [["queries", "Queries"], ["keys", "Keys"]];
  for (const [side, name] of names) {
    const line = element("p");
    if (name) line.append(element("b", {}, name), " ");
    scene.sides[side].forEach((group, index) => {
      const dataset = { side: data.self ? "queries" : side, index };
      line.append(element("span", { className: group.special ? "token special" : "token", dataset }, group.text), " ");
    });
    box.append(line);
  }
}

// The span of a token. In self-attention a text stands once, as the queries.
function tokenSpan(box, side, index) {
  return box.querySelector(`.token[data-side="${data.self ? "queries" : side}"][data-index="${index}"]`);
}

// Tint of each key: its weight from the focused query, the weight of the focused key from it, or, with no focus, the
// mean of its column.
function tintText(box, scene) {
  const { map, focus, cursor, hint, theme } = scene;
  const { rows, columns, weights } = map;
  const values = { queries: null, keys: null };
  if (focus?.side === "keys") {
    values.queries = Float32Array.from({ length: rows }, (_, i) => weights[i * columns + focus.index]);
    values.keys = data.self ? values.queries : null;
  } else {
    values.keys = focus ? weights.slice(focus.index * columns, (focus.index + 1) * columns) : columnMeans(map);
  }
  const largestOf = (list) => list ? list.reduce((a, b) => Math.max(a, b), 0) : 0;
  const most = { queries: largestOf(values.queries), keys: largestOf(values.keys) };
  const marked = (side, index) => hint?.side === side && hint.index === index ||
    cursor !== null && (side === "queries" ? cursor.i : cursor.j) === index;
  box.style.setProperty("--hue", focus?.side === "keys" ? theme.key : theme.query);
  for (const span of box.querySelectorAll(".token")) {
    const index = Number(span.dataset.index);
    const side = data.self ? "keys" : span.dataset.side;
    const share = most[side] > 0 ? values[side][index] / most[side] : 0;
    span.style.setProperty("--tint", `${Math.round(100 * theme.tint * Math.sqrt(share))}%`);
    span.classList.toggle("focused", focus?.index === index && (data.self || focus.side === side));
    span.classList.toggle("marked", data.self ? marked("queries", index) || marked("keys", index) : marked(side, index));
  }
}
