// Pointer, keys, address, start.

function showTip(event, text) {
  const tip = byId("tip");
  tip.textContent = text;
  tip.hidden = false;
  const { innerWidth, innerHeight } = window;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8)}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}

function tipFor(hover) {
  if ("side" in hover) return sides[hover.side][hover.index].text;
  const w = scene.map.weights[hover.i * scene.map.columns + hover.j];
  return `${sides.queries[hover.i].text} → ${sides.keys[hover.j].text}\n${w.toFixed(data.digits)}`;
}

function hoverTo(event, hover) {
  state.hover = hover;
  if (hover) showTip(event, tipFor(hover));
  else hideTip();
  redraw();
}

// Pins a token, or lets it go when it is the pinned one.
function togglePin(hover) {
  if (!hover) return;
  const { side, index } = "side" in hover ? hover : { side: "queries", index: hover.i };
  const token = sides[side][index].members[0];
  const same = state.pin && state.pin.side === side && sides[side][index].members.includes(state.pin.token);
  state.pin = same ? null : { side, token };
  redraw();
  writeHash();
}

function watchFigure(box, at) {
  const canvas = box.querySelector("canvas");
  const under = (event) => {
    const bounds = canvas.getBoundingClientRect();
    return scene && at(windowOf(box), event.clientX - bounds.left, event.clientY - bounds.top);
  };
  canvas.addEventListener("pointermove", (event) => hoverTo(event, under(event)));
  canvas.addEventListener("pointerleave", (event) => hoverTo(event, null));
  canvas.addEventListener("click", (event) => togglePin(under(event)));
  box.addEventListener("scroll", () => redraw());
}

function watchText() {
  const box = byId("text");
  const under = (event) => {
    const span = event.target.closest(".token");
    return span ? { side: span.dataset.side, index: Number(span.dataset.index) } : null;
  };
  box.addEventListener("pointerover", (event) => { state.hover = under(event); redraw(); });
  box.addEventListener("pointerleave", () => { state.hover = null; redraw(); });
  box.addEventListener("click", (event) => togglePin(under(event)));
}

function watchGrid() {
  const canvas = byId("grid");
  let pointed = -1;
  const point = (n, event) => {
    if (pointed >= 0) drawOne(pointed);
    pointed = n;
    if (n < 0) return hideTip();
    drawOne(n, true);
    const { layer, head, entropy, special, links } = data.heads[n];
    const lines = [`Layer ${layer}, head ${head}`];
    if (entropy !== null) lines.push(`entropy ${entropy.toFixed(2)}, special ${Math.round(100 * special)}%`);
    for (const [i, j, w] of links.slice(0, 3)) {
      lines.push(`${visibleText(data.queries.tokens[i])} → ${visibleText(data.keys.tokens[j])} ${w.toFixed(3)}`);
    }
    showTip(event, lines.join("\n"));
  };
  canvas.addEventListener("pointermove", (event) => point(gridAt(gridPlaceNow, event.offsetX, event.offsetY), event));
  canvas.addEventListener("pointerleave", (event) => point(-1, event));
  canvas.addEventListener("click", (event) => {
    const n = gridAt(gridPlaceNow, event.offsetX, event.offsetY);
    if (n >= 0) set({ n });
  });
}

// The head `byLayer` layers and `byHead` heads away, if there is one.
function moveHead(byLayer, byHead) {
  const { layer, head } = data.heads[state.n];
  const n = headAt(layer + byLayer, head + byHead);
  if (n >= 0) set({ n });
}

function movePin(by) {
  const pinned = pinnedGroup();
  const side = pinned?.side ?? "queries";
  const count = sides[side].length;
  const index = pinned ? (pinned.index + by + count) % count : by > 0 ? 0 : count - 1;
  state.pin = { side, token: sides[side][index].members[0] };
  showPinned();
  redraw();
  writeHash();
}

// Scrolls text and lines so that the pinned token is in sight.
function showPinned() {
  const pinned = pinnedGroup();
  if (!pinned) return;
  const box = byId("lines-box");
  const top = linesPlace.top + pinned.index * rowHeight;
  if (top < box.scrollTop || top + rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 2;
  const text = byId("text");
  const span = text.querySelectorAll(".token")[pinned.index];
  if (data.self && span) text.scrollTop = span.offsetTop - text.offsetTop - text.clientHeight / 2 + span.offsetHeight;
}

function zoom(factor) {
  const cell = factor === null ? null : Math.max(1, Math.min(48, Math.round((matrixPlace.cell) * factor) || 1));
  state.cell = cell;
  placeFigures();
  redraw();
}

const keys = {
  ArrowLeft: () => moveHead(0, -1),
  ArrowRight: () => moveHead(0, 1),
  ArrowUp: () => moveHead(-1, 0),
  ArrowDown: () => moveHead(1, 0),
  "[": () => movePin(-1),
  "]": () => movePin(1),
  Escape: () => { state.pin = null; state.hover = null; hideTip(); redraw(); writeHash(); },
  w: () => set({ level: state.level === "words" ? "pieces" : "words" }),
  s: () => set({ hide: !state.hide }),
  r: () => set({ scale: state.scale === "root" ? "linear" : "root" }),
  t: () => set({ theme: state.theme === "dark" ? "light" : "dark" }),
  "+": () => zoom(1.5),
  "=": () => zoom(1.5),
  "-": () => zoom(1 / 1.5),
  0: () => zoom(null),
  "?": () => byId("help").showModal(),
};

function watchKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open || !scene) return;
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function watchButtons() {
  const on = (id, action) => byId(id).addEventListener("click", action);
  on("level-pieces", () => set({ level: "pieces" }));
  on("level-words", () => set({ level: "words" }));
  on("scale-root", () => set({ scale: "root" }));
  on("scale-linear", () => set({ scale: "linear" }));
  on("hide", () => set({ hide: !state.hide }));
  on("theme", keys.t);
  on("help-open", keys["?"]);
  on("zoom-in", keys["+"]);
  on("zoom-out", keys["-"]);
  on("zoom-fit", keys[0]);
  for (const figure of ["matrix", "lines"]) {
    on(`${figure}-svg`, () => exportSvg(scene, figure));
    on(`${figure}-png`, () => exportPng(scene, figure));
  }
}

// The address keeps what is open, so that a link or a reload shows it again.
function writeHash() {
  const { layer, head } = data.heads[state.n];
  const parts = new URLSearchParams({ layer, head });
  if (state.level === "words") parts.set("level", "words");
  if (state.hide) parts.set("hide", "special");
  if (state.pin) parts.set(state.pin.side === "queries" ? "query" : "key", state.pin.token);
  history.replaceState(null, "", `#${parts}`);
}

function readHash() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const n = headAt(Number(parts.get("layer")), Number(parts.get("head")));
  if (parts.has("layer") && n >= 0) state.n = n;
  if (parts.get("level") === "words") state.level = "words";
  state.hide = parts.get("hide") === "special";
  for (const [name, side] of [["query", "queries"], ["key", "keys"]]) {
    if (parts.has(name)) state.pin = { side, token: Number(parts.get(name)) };
  }
}

function fillPage() {
  const [queries, keyCount] = [data.queries.tokens.length, data.keys.tokens.length];
  byId("title").textContent = data.title;
  byId("facts").textContent = (data.self ? `${queries} tokens` : `${queries} queries, ${keyCount} keys`) +
    ` · ${numLayers} ${numLayers === 1 ? "layer" : "layers"} · ${data.heads.length} heads`;
  byId("heads-facts").textContent = "layers down, heads across";
  byId("notes").textContent = data.notes.join(" ");
  byId("precision").textContent = `Weights are kept rounded to ${data.digits} decimals: each number shown is exact to that digit. ` +
    "For words and with special tokens hidden, which add and divide such numbers, the last digit may be off by a few.";
  const words = [data.queries, data.keys].some((side) => side.words.length > 0);
  byId("level-words").disabled = !words;
  byId("hide").disabled = !anySpecial;
}

// For tests and for those who script the page: where things are, in CSS px of their canvas.
window.multiheadPage = {
  placeOfCell(i, j) {
    const view = windowOf(byId("matrix-box"));
    const middle = (index) => (index + 0.5) * matrixPlace.cell;
    return { x: matrixPlace.left + middle(j) - view.x, y: matrixPlace.top + middle(i) - view.y };
  },
  placeOfHead(layer, head) {
    const { x, y } = gridPlace(gridPlaceNow, { layer, head });
    return { x: x + gridPlaceNow.size / 2, y: y + gridPlaceNow.size / 2 };
  },
};

async function start() {
  if (!("DecompressionStream" in window)) {
    byId("title").textContent = "This page needs a browser of 2023 or later (DecompressionStream).";
    return;
  }
  fillPage();
  readHash();
  watchFigure(byId("matrix-box"), (view, x, y) => matrixAt(scene, matrixPlace, view, x, y));
  watchFigure(byId("lines-box"), (view, x, y) => linesAt(scene, linesPlace, view, x, y));
  watchText();
  watchGrid();
  watchKeys();
  watchButtons();
  await set({});
  showPinned();
  document.documentElement.dataset.ready = Math.round(performance.now());  // ms from navigation to a page that answers
  window.addEventListener("resize", () => { placeFigures(); drawGrid(); redraw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => set({ theme: event.matches ? "dark" : "light" }));
  await fillThumbnails();
}

start();
