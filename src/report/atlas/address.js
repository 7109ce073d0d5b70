// What is open stands in the address, so that a link, a reload or the back button shows it again.
//
//   #view=grid&head=2.8&with=2.0&role=first&search=obj&size=importance&measure=cosine&quality=nearest&order=groups&sort=role&down=1&theme=dark

const viewNames = ["grid", "table", "similarity", "map", "compare", "prune"];
const measureNames = ["looks_alike", "writes_alike", "cosine"];

function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const one = (name, list, otherwise) => list.includes(parts.get(name)) ? parts.get(name) : otherwise;
  state.view = one("view", viewNames, "grid");
  state.n = own.at.get(parts.get("head")) ?? 0;
  state.with = own.at.get(parts.get("with")) ?? null;
  state.role = parts.get("role") || null;
  state.search = (parts.get("search") ?? "").slice(0, 100);
  const size = parts.get("size");
  state.size = size === "none" ? null : measures.has(size) ? size : measures.has("importance") ? "importance" : null;
  state.measure = one("measure", measureNames, "writes_alike");
  state.quality = one("quality", ["loss", "agreement", "nearest"], "loss");
  state.order = one("order", ["layers", "groups"], "layers");
  state.sort = parts.get("sort") ?? "head";
  state.down = parts.get("down") === "1";
  state.theme = one("theme", ["light", "dark"], null);
}

function addressOfState() {
  const parts = new URLSearchParams({ view: state.view, head: nameOf(own.heads[state.n]) });
  if (state.with !== null && other === null) parts.set("with", nameOf(own.heads[state.with]));
  if (state.role !== null) parts.set("role", state.role);
  if (state.search !== "") parts.set("search", state.search);
  if (state.size !== (measures.has("importance") ? "importance" : null)) parts.set("size", state.size ?? "none");
  if (state.measure !== "writes_alike") parts.set("measure", state.measure);
  if (state.quality !== "loss") parts.set("quality", state.quality);
  if (state.order !== "layers") parts.set("order", state.order);
  if (state.sort !== "head") parts.set("sort", state.sort);
  if (state.down) parts.set("down", "1");
  if (state.theme !== null) parts.set("theme", state.theme);
  return `#${parts}`;
}

// `step`: a new entry for the back button, else the last one is replaced.
function writeAddress(step) {
  const address = addressOfState();
  if (address === location.hash) return;
  try {
    if (step) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  } catch {
    // browsers refuse too many changes at once; the next one is written
  }
}
