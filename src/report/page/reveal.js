// Brings a pinned token and its links into view.

// The scroll position, of those that keep [from, to) in a window of `extent`, with most of the weight of `spans` in
// sight: [{from, to, w}]. Of equals the nearest to where it is.
function bestOffset(now, extent, from, to, spans) {
  const [low, high] = [Math.min(from, to - extent), Math.max(from, to - extent)];
  const clamp = (offset) => Math.max(0, Math.min(high, Math.max(low, offset)));
  const candidates = [now, ...spans.flatMap((span) => [span.from, span.to - extent])].map(clamp);
  const seen = (offset) => spans.reduce((sum, { from, to, w }) => sum + (from >= offset - 1 && to <= offset + extent + 1 ? w : 0), 0);
  let best = candidates[0];
  for (const offset of candidates) {
    const gain = seen(offset) - seen(best);
    if (gain > 1e-9 || (gain > -1e-9 && Math.abs(offset - now) < Math.abs(best - now))) best = offset;
  }
  return best;
}

// As it is where [from, to) is in sight, else with [from, to) in the middle.
function middleOffset(now, extent, from, to) {
  return from >= now && to <= now + extent ? now : (from + to - extent) / 2;
}

// Text, lines and map, without `except`: the figure that the pin was made in keeps its place. In the text too the token
// itself stays in sight; it moves only to show its links.
function showPinned(except = null) {
  const pin = pinnedTarget();
  if (!pin) return;
  const token = tokenOf(pin);
  const links = linksOf(token);
  revealInText(token, links);
  if (except !== "lines") {
    const box = byId("lines-box");
    const top = linesPlace.top + token.index * rowHeight;
    box.scrollTop = middleOffset(box.scrollTop, box.clientHeight, top, top + rowHeight);
  }
  if (except !== "matrix") revealInMatrix(pin, token, links);
  state.pointer = state.pointer?.where === except ? state.pointer : null;  // what was under a resting pointer may have moved
}

// The strongest links of a token, strongest first: [{index, w}] on the other side.
function linksOf({ side, index }) {
  const { rows, columns, weights } = scene.map;
  return side === "queries" ? largest(columns, listLength, (j) => weights[index * columns + j])
    : largest(rows, listLength, (i) => weights[i * columns + index]);
}

function revealInText(token, links) {
  const box = byId("text");
  const extentOf = (side, index) => {
    const span = tokenSpan(box, side, index);
    return span && { from: span.offsetTop, to: span.offsetTop + span.offsetHeight };
  };
  const other = token.side === "queries" ? "keys" : "queries";
  const own = extentOf(token.side, token.index);
  if (!own) return;
  const spans = links.map(({ index, w }) => ({ ...extentOf(other, index), w }));
  const offset = bestOffset(box.scrollTop, box.clientHeight, own.from, own.to, spans);
  if (Math.abs(offset - box.scrollTop) >= 1) {
    box.scrollTop = offset;
    if (state.pointer?.where === "text") state.pointer = null;
  }
}

function revealInMatrix(pin, token, links) {
  const box = byId("matrix-box");
  const { cell, left, top } = matrixPlace;
  const across = (index) => ({ from: index * cell, to: (index + 1) * cell });
  const [width, height] = [box.clientWidth - left, box.clientHeight - top];
  const other = "i" in pin ? (token.side === "queries" ? pin.j : pin.i) : links[0]?.index ?? token.index;
  const [row, column] = token.side === "queries" ? [token.index, other] : [other, token.index];
  const [y, x] = [across(row), across(column)];
  box.scrollTop = middleOffset(box.scrollTop, height, y.from, y.to);
  box.scrollLeft = middleOffset(box.scrollLeft, width, x.from, x.to);
}
