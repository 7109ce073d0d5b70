// What is open, and what is chosen.

const anySpecial = [data.queries, data.keys].some((side) => side.special.includes(1));
const anyWords = [data.queries, data.keys].some((side) => side.words.length > 0);

const state = {
  n: data.first,
  level: "pieces",  // or "words"
  mean: false,      // the mean map of the layer, not one head
  hide: false,      // special tokens left out
  scale: "root",    // colour grows with the square root of a weight; or "linear"
  maps: "common",   // colours of the small maps end at 1; or "own": at each head's largest weight
  theme: null,      // "light", "dark"; null = as the system is
  letters: true,    // the single keys act
  cell: null,       // px a cell of the map; null = the whole map fits
  pin: null,        // {query}, {key} or both: pieces' positions, so that they survive a change of level
  pointer: null,    // {x, y, where}: see target.js
  printing: false,  // paper is white
};

let sides = null;
let scene = null;  // what the figures draw

const systemDark = matchMedia("(prefers-color-scheme: dark)");

function themeName() {
  if (state.printing) return "light";
  return state.theme ?? (systemDark.matches ? "dark" : "light");
}

function sceneOf(map) {
  const made = { n: state.n, map, sides, most: map.most, focus: null, cursor: null, hint: null, pin: null, ...look() };
  const pictureIn = keptPicture(map);
  made.picture = () => pictureIn(made.most, made.scale, made.theme);
  return made;
}

// The heads whose mean is shown: one, or all of its layer.
function shownHeads() {
  const { layer } = data.heads[state.n];
  return state.mean ? data.heads.flatMap((head, n) => head.layer === layer ? [n] : []) : [state.n];
}

// "layer 3, head 2" or "layer 3, mean of 12 heads"
function shownName() {
  const { layer, head } = data.heads[state.n];
  return `layer ${layer}, ${state.mean ? `mean of ${shownHeads().length} heads` : `head ${head}`}`;
}

// What colours depend on.
function look() {
  return { scale: state.scale, theme: themes[themeName()] };
}

// A token in the level that is looked at, or -1.
function groupOf(side, token) {
  return token === undefined ? -1 : sides[side].findIndex((group) => group.members.includes(token));
}

// The pin as a target: a cell {i, j}, a token {side, index}, or null.
function pinnedTarget() {
  if (!state.pin) return null;
  const [i, j] = [groupOf("queries", state.pin.query), groupOf("keys", state.pin.key)];
  if (i >= 0 && j >= 0) return { i, j };
  if (i >= 0) return { side: "queries", index: i };
  return j >= 0 ? { side: "keys", index: j } : null;
}

// The pin that a target makes.
function pinOf(target) {
  if ("i" in target) return { query: sides.queries[target.i].members[0], key: sides.keys[target.j].members[0] };
  const token = sides[target.side][target.index].members[0];
  return target.side === "queries" ? { query: token } : { key: token };
}

// The token that a target follows: of a cell its row.
function tokenOf(target) {
  return target && "i" in target ? { side: "queries", index: target.i } : target;
}

function sameTarget(a, b) {
  return a !== null && b !== null && a.i === b.i && a.j === b.j && a.side === b.side && a.index === b.index;
}
