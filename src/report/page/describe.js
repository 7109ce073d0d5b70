// What is drawn, in words: the line that is read out, the tip at the pointer, the names of the canvases.

// “text” (position), as parts of an element.
function named(side, index) {
  const group = sides[side][index];
  return ["“", tokenName(group.text), `” (${group.members[0]})`];
}

function weightAt({ i, j }) {
  return scene.map.weights[i * scene.map.columns + j];
}

function cellParts(cell) {
  return [...named("queries", cell.i), " → ", ...named("keys", cell.j), `: ${exactText(weightAt(cell), scene.map.digits)}`];
}

function fillReadout() {
  const { cursor, focus, hint, pin } = scene;
  const letGo = ", pinned: Esc lets go";
  let parts = ["Point at a token or a cell; click to pin it."];
  if (cursor) parts = [...cellParts(cursor), sameTarget(cursor, pin) ? letGo : ""];
  else if (hint) parts = ["Key ", ...named(hint.side, hint.index)];
  else if (focus) parts = [focus.side === "queries" ? "Query " : "Key ", ...named(focus.side, focus.index), sameTarget(focus, pin) ? letGo : ""];
  const line = byId("readout");
  const made = element("p", {}, ...parts);
  if (made.textContent !== line.textContent) line.replaceChildren(...made.childNodes);
}

// The weight between the pinned token and another, as lines of a tip.
function linkToPin({ side, index }) {
  const pin = tokenOf(scene.pin);
  if (!pin || (pin.side === side && !data.self)) return [];
  if (pin.side === side && pin.index === index) return [];
  const cell = pin.side === "queries" ? { i: pin.index, j: index } : { i: index, j: pin.index };
  return ["\n", tokenName(sides.queries[cell.i].text), " → ", tokenName(sides.keys[cell.j].text),
          ` ${exactText(weightAt(cell), scene.map.digits)}`];
}

function tipParts(target) {
  if ("side" in target) return [tokenName(sides[target.side][target.index].text), ` (${sides[target.side][target.index].members[0]})`, ...linkToPin(target)];
  return [tokenName(sides.queries[target.i].text), " → ", tokenName(sides.keys[target.j].text),
          `\n${exactText(weightAt(target), scene.map.digits)}`];
}

function headTipParts(n) {
  const { layer, head, digits, entropy, special, links } = data.heads[n];
  const parts = [`Layer ${layer}, head ${head}`];
  if (entropy !== null) parts.push(`\nentropy ${entropy.toFixed(2)}, special ${Math.round(100 * special)}%`);
  if (thumbnails.has(n)) parts.push(`\nlargest weight ${weightText(thumbnails.get(n).most, digits, 3)}`);
  for (const [i, j, w] of links.slice(0, 3)) {
    parts.push("\n", tokenName(visibleText(data.queries.tokens[i])), " → ", tokenName(visibleText(data.keys.tokens[j])), ` ${weightText(w, 6, 3)}`);
  }
  return parts;
}

function spoken(side, index) {
  return `“${sides[side][index].text}” (${sides[side][index].members[0]})`;
}

// A canvas says what it shows: size, scale and the strongest links. The lists beside it hold the rest.
function describeHead() {
  const { map } = scene;
  const { layer, head } = data.heads[state.n];
  const name = shownName();
  const links = largest(map.weights.length, 3, (at) => map.weights[at]).map(({ index, w }) => {
    const [i, j] = [Math.floor(index / map.columns), index % map.columns];
    return `${spoken("queries", i)} to ${spoken("keys", j)} ${weightText(w, map.digits)}`;
  });
  const size = `${map.rows} query tokens, ${map.columns} key tokens`;
  const strongest = links.length > 0 ? `. Strongest links: ${links.join(", ")}.` : ".";
  byId("matrix").ariaLabel = `Map of ${name}: ${size}, weights from 0 to ${weightText(scene.most, map.digits, 3)}${strongest}`;
  byId("lines").ariaLabel = `Lines of ${name}: ${size}${strongest}`;
  byId("grid").ariaLabel = `Small maps of all ${data.heads.length} heads; layer ${layer}, head ${head} is open.`;
}
