// Opening a head, changing the view, start.

let opening = 0;
// Shows the head of `state` in the level of `state`. False when another was asked for meanwhile.
async function showHead() {
  const turn = ++opening;
  const shown = shownHeads();
  const counts = await Promise.all(shown.map(mapOf));
  if (turn !== opening) return false;
  sides = sidesOf(state.level === "words", state.hide);
  scene = sceneOf(meanOf(shown.map((n, k) => weightsOf(counts[k], sides, data.heads[n].digits))));
  fillText(byId("text"), scene);
  placeFigures();
  fillHead();
  drawGrid();
  drawLegends();
  redraw();
  return true;
}

async function openHead(n) {
  const changed = n !== state.n;
  state.n = n;
  if (await showHead() && changed) writeAddress(true);
}

function press(id, on) {
  byId(id).setAttribute("aria-pressed", String(on));
}

// Buttons and colours as `state` has them.
function showChoices() {
  document.documentElement.dataset.theme = themeName();
  byId("theme").textContent = themeName() === "dark" ? "Light" : "Dark";
  for (const [name, values] of [["level", ["pieces", "words"]], ["scale", ["root", "linear"]], ["maps", ["common", "own"]]]) {
    for (const value of values) press(`${name}-${value}`, state[name] === value);
  }
  press("hide", state.hide);
  press("mean", state.mean);
  byId("letters").checked = state.letters;
}

// Takes a change of `state` over into the page.
async function apply(change) {
  const tokensChange = ["level", "hide"].some((key) => key in change && change[key] !== state[key]);
  Object.assign(state, change);
  showChoices();
  const shown = await showHead();
  if (tokensChange) fillThumbnails();
  return shown;
}

// What a person chose.
async function choose(change) {
  if (!await apply(change)) return;
  writeAddress();
  keep();
}

async function followAddress() {
  if (location.hash === addressOfState()) return;
  state.pointer = null;
  if (!await apply(stateOfAddress())) return;
  showPinned();
  writeAddress();
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
  placeOfToken(side, index) {  // in the lines; null where it is out of sight
    const view = windowOf(byId("lines-box"));
    const places = placesOf(scene, linesPlace, view, side);
    if (!places.shown.includes(index)) return null;
    return { x: side === "queries" ? linesPlace.left - 20 : linesPlace.right + 20, y: places.y(index) };
  },
};

async function start() {
  if (!("DecompressionStream" in window)) {
    byId("title").textContent = "This page needs a browser of 2023 or later (DecompressionStream).";
    return;
  }
  fillPage();
  await apply(stateOfAddress());
  showPinned();
  writeAddress();
  watchFigures();
  watchLists();
  watchGrid();
  watchKeys();
  watchButtons();
  watchWindow();
  window.addEventListener("hashchange", followAddress);
  systemDark.addEventListener("change", () => { if (state.theme === null) apply({}); });
  watchPrint();
  document.documentElement.dataset.ready = Math.round(performance.now());  // ms from navigation to a page that answers
  await fillThumbnails();
}

start();
