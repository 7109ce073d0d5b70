// The page: its views, its controls, and what happens when a head is opened.

const views = new Map([["grid", gridView], ["table", tableView], ["similarity", similarityView], ["map", planeView], ["compare", compareView], ["prune", pruneView]]);

function readOut(text, failed = false) {
  byId("readout").textContent = text;
  byId("readout").className = failed ? "failed" : "";
}

function searchControl() {
  const input = element("input", { type: "search", value: state.search, placeholder: "3.11, obj, unassigned", oninput: () => { state.search = input.value; showFigure(); showRoles(); writeAddress(false); } });
  return element("label", {}, "Find", input);
}

function sizeControl() {
  if (measures.size === 0) return element("span", {}, "This file has no numbers for the size of circles.");
  const select = element("select", { ariaLabel: "Size", onchange: () => { state.size = select.value === "" ? null : select.value; showView(true); } },
    element("option", { value: "" }, "one size"), ...[...measures.keys()].map((name) => element("option", { value: name, selected: name === state.size }, wordsOf(name))));
  return element("label", {}, "Size", select);
}

// A select of one of `names`, in `words`; kept in state[key].
function choiceControl(label, names, inWords, key) {
  const select = element("select", { ariaLabel: label, onchange: () => { state[key] = select.value; showView(true); } },
    ...names.map((name) => element("option", { value: name, selected: state[key] === name }, inWords[name])));
  return element("label", {}, label, select);
}

function swatch(style) {
  const mark = element("span", { className: "swatch", ariaHidden: "true" }, style.letters);
  if (style.fill && !style.hollow) Object.assign(mark.style, { background: style.fill, color: darkText });
  else mark.style.border = style.fill ? `3px solid ${style.fill}` : `1px ${style === notJudged ? "dashed" : "solid"} var(--soft)`;
  return mark;
}

// The legend, each role with the number of its heads; a click shows these alone.
function showRoles() {
  byId("roles").hidden = state.view === "similarity" || (state.view === "compare" && other === null);
  const counts = new Map();
  for (const head of own.heads) for (const role of new Set([head.role, ...head.labels])) counts.set(role, (counts.get(role) ?? 0) + 1);
  const place = (name) => [...roleStyles.keys(), noRole.name, notJudged.name].indexOf(name);
  const names = [...counts.keys()].sort((a, b) => place(a) - place(b) || a.localeCompare(b));
  byId("roles").replaceChildren(...names.map((name) => {
    const style = roleStyle(name);
    const button = element("button", { type: "button", title: style.meaning, dataset: { role: name }, onclick: () => chooseRole(state.role === name ? null : name) },
      swatch(style), `${wordsOf(name)} ${counts.get(name)}`);
    button.setAttribute("aria-pressed", String(state.role === name));
    return button;
  }));
}

function chooseRole(role) {
  state.role = role;
  showView(true);
  if (role !== null) document.querySelector(`#roles [data-role="${CSS.escape(role)}"]`)?.focus();
}

// Only what is drawn. The place of scrolling stays.
function showFigure() {
  const box = byId("figure");
  const [left, top] = [box.scrollLeft, box.scrollTop];
  box.replaceChildren();
  views.get(state.view).show(box);
  [box.scrollLeft, box.scrollTop] = [left, top];
  byId("view-facts").textContent = views.get(state.view).facts();
}

function showView(step = false) {
  const view = views.get(state.view);
  byId("view-name").textContent = view.name;
  byId("controls").replaceChildren(...view.controls());
  for (const button of byId("views").children) button.setAttribute("aria-pressed", String(button.dataset.view === state.view));
  readOut("");
  showFigure();
  showRoles();
  writeAddress(step);
}

function showAll(step = false) {
  document.documentElement.dataset.theme = themeName();
  byId("theme").textContent = themeName() === "dark" ? "Light" : "Dark";
  showView(step);
  showDetails();
}

// The focus stays with what was opened, in whatever view it is drawn.
function openHead(n, step) {
  const within = byId("figure").contains(document.activeElement);
  state.n = n;
  showAll(step);
  if (!within) return;
  const next = byId("figure").querySelector(state.view === "table" ? `button[data-n="${n}"]` : `.cell[data-n="${n}"]`) ?? byId("figure").querySelector("svg[tabindex]");
  next?.focus();
}

function showFacts() {
  byId("title").textContent = own.title;
  const facts = [`${own.layerNumbers.length} layers, ${own.heads.length} heads`];
  const { segments, tokens } = own.text;
  if (numberOr(segments) !== null && numberOr(tokens) !== null) facts.push(`judged on ${segments} segments, ${tokens} tokens`);
  byId("facts").textContent = facts.join(" · ");
  byId("missing").textContent = missingOf(own);
  byId("origin").textContent = own.folder === "" ? "" : `Model: ${own.folder}`;
  byId("views").replaceChildren(...[...views].map(([name, view]) =>
    element("button", { type: "button", dataset: { view: name }, onclick: () => { state.view = name; showView(true); } }, view.label)));
}

function listen() {
  for (const kind of ["svg", "png", "csv", "json"]) byId(`save-${kind}`).addEventListener("click", () => saveView(kind));
  byId("theme").addEventListener("click", () => { state.theme = themeName() === "dark" ? "light" : "dark"; showAll(false); });
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  byId("compare-with").addEventListener("click", () => { state.view = "compare"; showView(true); });
  systemDark.addEventListener("change", () => showAll(false));
  const again = () => { readAddress(); showAll(false); };
  window.addEventListener("popstate", again);
  window.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.role !== null && !byId("help").open) chooseRole(null);
  });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    showFigure();
  });
}

readAddress();
showFacts();
listen();
showAll(false);
document.documentElement.dataset.heads = own.heads.length;
