// Two heads beside each other; with a second file, two models.

const beside = () => other ?? own;

// The head that stands beside the open one: as chosen, else its namesake in the other file, or the nearest.
function besideHead() {
  const head = own.heads[state.n];
  if (other !== null) return other.heads[state.with ?? other.at.get(nameOf(head)) ?? 0] ?? other.heads[0];
  const nearest = head.nearest.map((each) => own.at.get(nameOf(each))).find((n) => n !== undefined);
  return own.heads[state.with ?? nearest ?? (state.n + 1) % own.heads.length];
}

function difference(a, b) {
  return a === null || b === null || a === undefined || b === undefined ? null : b - a;
}

function pairTable(a, b) {
  const model = beside();
  const names = [other === null ? nameOf(a) : `${nameOf(a)} here`, other === null ? nameOf(b) : `${nameOf(b)} there`];
  const roles = [...new Set([...a.scores.keys(), ...b.scores.keys()])];
  const [mine, theirs] = [measuresOf(own), measuresOf(model)];
  const of = (map, name, head) => map.get(name)?.(head) ?? null;
  const rows = [["role", roleText(a), roleText(b), a.role === b.role ? "same" : "differs"]];
  if (other === null) {
    for (const name of measureNames) {
      if (own.similarity.has(name)) rows.push([measureWords[name], "", "", own.similarity.get(name)[a.n][b.n]]);
    }
  }
  for (const role of roles) {
    const [x, y] = [a.scores.get(role)?.lift ?? null, b.scores.get(role)?.lift ?? null];
    if (x !== null || y !== null) rows.push([`lift ${wordsOf(role)}`, x, y, difference(x, y)]);
  }
  for (const name of new Set([...mine.keys(), ...theirs.keys()])) {
    const [x, y] = [of(mine, name, a), of(theirs, name, b)];
    rows.push([wordsOf(name), x, y, difference(x, y)]);
  }
  return { columns: ["number", ...names, other === null ? "difference, or of both" : "difference"], rows };
}

// The largest change of a lift between namesakes, and whether the role changed; null without a namesake.
function changeOf(head) {
  const twin = other === null || !other.at.has(nameOf(head)) ? null : other.heads[other.at.get(nameOf(head))];
  if (!twin) return null;
  let largest = null;
  for (const [role, score] of head.scores) {
    const by = difference(score?.lift ?? null, twin.scores.get(role)?.lift ?? null);
    if (by !== null && (largest === null || Math.abs(by) > Math.abs(largest.by))) largest = { role, by };
  }
  return { twin, differs: twin.role !== head.role, largest };
}

function changesTable() {
  const rows = own.heads.map((head) => [head, changeOf(head)]).filter(([, change]) => change !== null);
  rows.sort(([, a], [, b]) => b.differs - a.differs || Math.abs(b.largest?.by ?? 0) - Math.abs(a.largest?.by ?? 0));
  return { columns: ["head", "role here", "role there", "largest change of a lift", "by"],
           rows: rows.map(([head, { twin, largest }]) => [nameOf(head), roleText(head), roleText(twin), largest ? wordsOf(largest.role) : null, largest?.by ?? null]) };
}

function plainTable({ columns, rows }, marks = () => false) {
  const isNumber = (k) => rows.some((each) => typeof each[k] === "number");
  const head = columns.map((name, k) => element("th", { scope: "col", className: isNumber(k) ? "n" : "" }, name));
  const body = rows.map((each) => element("tr", { className: marks(each) ? "differs" : "" }, ...each.map((cell, k) =>
    element("td", { className: isNumber(k) ? "n" : "" }, typeof cell === "number" ? shortNumber(cell) : cell ?? "–"))));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
}

function twoGrids(width) {
  const marked = (head) => changeOf(own.heads[own.at.get(nameOf(head))] ?? head)?.differs === true;
  const [here, there] = [[own, state.n], [other, besideHead().n]].map(([model, selected], k) => gridFigure(model, { figure: `side${k}`, selected, marked, width }));
  return { here, there };
}

function compareFigure() {
  if (other === null) return figureOfTable(pairTable(own.heads[state.n], besideHead()));
  const { here, there } = twoGrids(700);
  const [w, h] = [(f) => Number(f.getAttribute("width")), (f) => Number(f.getAttribute("height"))];
  there.setAttribute("x", w(here) + 20);
  for (const each of [here, there]) each.setAttribute("y", 24);
  return figureOf(w(here) + w(there) + 20, 24 + Math.max(h(here), h(there)), words(own.title, 10, 12, { anchor: "start" }),
    words(other.title, w(here) + 30, 12, { anchor: "start" }), here, there);
}

function showCompare(box) {
  const scroll = (child) => element("div", { className: "scroller", tabIndex: 0, role: "region", ariaLabel: "Grid" }, child);
  const parts = [];
  if (other !== null) {
    const { here, there } = twoGrids(box.clientWidth / (box.clientWidth > 900 ? 2 : 1));
    makeHeadsOpen(here, (n) => { state.with = null; openHead(n, true); });
    makeHeadsOpen(there, (n) => { state.with = n; showView(true); });
    const differing = changesTable().rows.filter((each) => each[1] !== each[2]).length;
    parts.push(element("div", {}, element("h3", {}, `${own.title}, the file of this page`), scroll(here)), element("div", {}, element("h3", {}, other.title), scroll(there)),
      element("p", {}, `${differing} heads have other roles there; those whose first role differs have a mark in their corner. The files are comparable if text and settings were the same.`));
  }
  const [a, b] = [own.heads[state.n], besideHead()];
  parts.push(element("h3", {}, `Head ${nameOf(a)} and head ${nameOf(b)}${other === null ? "" : ` of ${other.title}`}`), plainTable(pairTable(a, b), (each) => each[3] === "differs"));
  if (other !== null) parts.push(element("h3", {}, "Heads of the same place"), plainTable(changesTable(), (each) => each[1] !== each[2]));
  box.append(element("div", { className: "pair" }, ...parts));
}

function compareWith(n) {
  if (other !== null) closeOther();
  state.with = n;
  state.view = "compare";
  showAll(true);
}

function closeOther() {
  other = null;
  state.with = null;
}

async function openOther(file) {
  try {
    other = modelOf(await jsonOf(file));
    state.with = null;
    showAll(false);
    readOut(`${visibleText(file.name)}: ${other.heads.length} heads.`);
  } catch (error) {
    showAll(false);
    readOut(`${visibleText(file.name)} was not opened: ${error.message}. It should be what multihead heads --json writes.`, true);
  }
}

function compareControls() {
  const select = element("select", { ariaLabel: "Head beside it", onchange: () => { state.with = Number(select.value); showAll(true); } },
    ...beside().heads.map((head) => element("option", { value: head.n, selected: head === besideHead() }, `${nameOf(head)} ${wordsOf(head.role)}`)));
  const input = element("input", { type: "file", accept: ".json,application/json", id: "other-file", onchange: () => input.files[0] && openOther(input.files[0]) });
  const controls = [element("label", {}, `Head of ${other === null ? "this file" : other.title}`, select), element("label", {}, "Another model’s JSON", input)];
  if (other !== null) controls.push(element("button", { type: "button", onclick: () => { closeOther(); showAll(false); } }, "Close it"));
  return controls;
}

const compareView = {
  label: "Compare",
  name: "Two heads, two models",
  facts: () => "open a head in any view, choose the other here",
  figure: compareFigure,
  numbers: () => other === null ? pairTable(own.heads[state.n], besideHead()) : changesTable(),
  controls: compareControls,
  show: showCompare,
};
