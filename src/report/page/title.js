// What the page says about itself: the model, the text, their sizes.

// The beginning of a text, for the tab.
function beginningOf(text) {
  const letters = segmenter ? Array.from(segmenter.segment(text.slice(0, 400)), (s) => s.segment) : Array.from(text.slice(0, 400));
  return letters.length > 60 ? letters.slice(0, 59).join("") + "…" : letters.join("");
}

function fillPage() {
  const [queries, keyCount] = [data.queries.tokens.length, data.keys.tokens.length];
  const title = visibleProse(data.title);
  const text = visibleProse(data.text).replace(/\s+/g, " ").trim();
  document.title = text ? `${beginningOf(text)} · ${title}` : title;
  byId("title").textContent = title;
  byId("given").textContent = text;
  byId("given").hidden = !text;
  byId("facts").textContent = (data.self ? `${queries} ${queries === 1 ? "token" : "tokens"}` : `${queries} queries, ${keyCount} keys`) +
    ` · ${numLayers} ${numLayers === 1 ? "layer" : "layers"} · ${data.heads.length} ${data.heads.length === 1 ? "head" : "heads"}`;
  byId("model").textContent = visibleProse(data.model);
  byId("notes").textContent = data.notes.map(visibleProse).join(" ");
  byId("level-words").disabled = !anyWords;
  byId("hide").disabled = !anySpecial;
}
