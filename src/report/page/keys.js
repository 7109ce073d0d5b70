// Keys and buttons.

// The next head in a direction: `byLayer` layers or `byHead` heads away, over gaps.
function moveHead(byLayer, byHead) {
  let { layer, head } = data.heads[state.n];
  do {
    layer += byLayer;
    head += byHead;
    const n = headAt(layer, head);
    if (n >= 0) return openHead(n);
  } while (layer >= 0 && layer < numLayers && head >= 0 && head < mostHeads);
}

function letGo() {
  state.pointer = null;
  pin(null);
}

const arrows = {
  ArrowLeft: () => moveHead(0, -1),
  ArrowRight: () => moveHead(0, 1),
  ArrowUp: () => moveHead(-1, 0),
  ArrowDown: () => moveHead(1, 0),
};

const letters = {
  "[": () => movePin(-1),
  "]": () => movePin(1),
  w: () => anyWords && choose({ level: state.level === "words" ? "pieces" : "words" }),
  s: () => anySpecial && choose({ hide: !state.hide }),
  a: () => choose({ mean: !state.mean }),
  r: () => choose({ scale: state.scale === "root" ? "linear" : "root" }),
  m: () => choose({ maps: state.maps === "common" ? "own" : "common" }),
  t: () => choose({ theme: themeName() === "dark" ? "light" : "dark" }),
  "+": () => zoom(1.5),
  "=": () => zoom(1.5),
  "-": () => zoom(1 / 1.5),
  0: () => zoom(null),
  "?": () => byId("help").showModal(),
};

// Arrows belong to what has the focus where that scrolls or is a control.
function takesArrows(node) {
  return node.closest("button, input, select, textarea, summary, [contenteditable], .scroller") !== null && node.closest("#heads-keys") === null;
}

function watchKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open || !scene) return;
    const focused = document.activeElement ?? document.body;
    let action = null;
    if (event.key === "Escape") action = letGo;
    else if (Object.hasOwn(arrows, event.key)) action = takesArrows(focused) ? null : arrows[event.key];
    else if (state.letters && !focused.closest("input, select, textarea")) action = Object.hasOwn(letters, event.key) ? letters[event.key] : null;
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function watchButtons() {
  const on = (id, action) => byId(id).addEventListener("click", (event) => {
    giveFocusBack(event);
    action();
  });
  on("level-pieces", () => choose({ level: "pieces" }));
  on("level-words", () => choose({ level: "words" }));
  on("scale-root", () => choose({ scale: "root" }));
  on("scale-linear", () => choose({ scale: "linear" }));
  on("maps-common", () => choose({ maps: "common" }));
  on("maps-own", () => choose({ maps: "own" }));
  on("hide", () => choose({ hide: !state.hide }));
  on("mean", letters.a);
  on("theme", letters.t);
  on("help-open", letters["?"]);
  on("zoom-in", letters["+"]);
  on("zoom-out", letters["-"]);
  on("zoom-fit", letters[0]);
  on("token-before", letters["["]);
  on("token-after", letters["]"]);
  on("head-before", () => openHead((state.n + data.heads.length - 1) % data.heads.length));
  on("head-after", () => openHead((state.n + 1) % data.heads.length));
  byId("letters").addEventListener("change", (event) => choose({ letters: event.target.checked }));
  for (const figure of ["matrix", "lines"]) {
    on(`${figure}-svg`, () => exportSvg(scene, figure));
    on(`${figure}-png`, () => exportPng(scene, figure));
  }
}
