// What is open stands in the address, so that a link, a reload or the back button shows it again. What a person prefers is
// also kept for the next page, where the browser lets a page keep something.
//
//   #layer=5&head=11&level=words&hide=special&mean=layer&query=3&key=2&scale=root&maps=common&theme=dark
//
//   query, key      the pinned token, or cell where both are given: positions
//   maps            common: the colours of the small maps end at 1; own: each at its largest weight

const choices = { level: ["pieces", "words"], scale: ["root", "linear"], maps: ["common", "own"], theme: ["light", "dark"] };
const defaults = { level: "pieces", scale: "root", maps: "common", theme: null };
const storageName = "multihead.inspect";

function kept() {
  try {
    const found = JSON.parse(localStorage.getItem(storageName));
    return found !== null && typeof found === "object" ? found : {};
  } catch {
    return {};
  }
}

function keep() {
  const { scale, maps, theme, letters } = state;
  try {
    localStorage.setItem(storageName, JSON.stringify({ scale, maps, theme, letters }));
  } catch {
    // a page without storage forgets
  }
}

function choice(name, value) {
  return choices[name].includes(value) ? value : null;
}

// A whole number below `count`, or undefined.
function position(text, count) {
  return text !== null && /^\d{1,9}$/.test(text) && Number(text) < count ? Number(text) : undefined;
}

// The state that an address gives. What it does not say is as it was kept, else as in a new page.
function stateOfAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const preferred = kept();
  const chosen = (name) => choice(name, parts.get(name)) ?? choice(name, preferred[name]) ?? defaults[name];
  const [layer, head] = [position(parts.get("layer"), numLayers), position(parts.get("head"), mostHeads)];
  const n = layer === undefined || head === undefined ? -1 : headAt(layer, head);
  const pin = { query: position(parts.get("query"), data.queries.tokens.length), key: position(parts.get("key"), data.keys.tokens.length) };
  const words = anyWords && parts.get("level") === "words";
  return { n: n >= 0 ? n : data.first, level: words ? "words" : "pieces", mean: parts.get("mean") === "layer", hide: anySpecial && parts.get("hide") === "special",
           pin: pin.query === undefined && pin.key === undefined ? null : pin,
           scale: chosen("scale"), maps: chosen("maps"), theme: chosen("theme"), letters: preferred.letters !== false };
}

function addressOfState() {
  const { layer, head } = data.heads[state.n];
  const parts = new URLSearchParams({ layer, head });
  if (state.level === "words") parts.set("level", "words");
  if (state.hide) parts.set("hide", "special");
  if (state.mean) parts.set("mean", "layer");
  if (state.pin?.query !== undefined) parts.set("query", state.pin.query);
  if (state.pin?.key !== undefined) parts.set("key", state.pin.key);
  parts.set("scale", state.scale);
  parts.set("maps", state.maps);
  if (state.theme !== null) parts.set("theme", state.theme);
  return `#${parts}`;
}

// `step`: a new entry for the back button, else the last one is replaced.
function writeAddress(step = false) {
  const address = addressOfState();
  if (address === location.hash) return;
  try {
    if (step) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  } catch {
    // browsers refuse too many changes at once; the next one is written
  }
}
