// The numbers of the open head.

function row(name, number, note = "", passed = false) {
  return element("tr", {}, element("td", { className: passed ? "passed" : "" }, name), element("td", { className: "n" }, number), element("td", { className: "low" }, note));
}

function section(title, head, rows) {
  if (rows.length === 0) return [];
  const cells = head.map((name, k) => element("th", { scope: "col", className: k === 1 ? "n" : "" }, name));
  return [element("h3", {}, title), element("table", {}, element("thead", {}, element("tr", {}, ...cells)), element("tbody", {}, ...rows))];
}

function intervalText(interval) {
  return interval ? `${liftText(interval[0])} … ${liftText(interval[1])}` : "";
}

function scoreRows(head) {
  const judged = [...head.scores].filter(([, score]) => score !== null);
  const strength = ([, score]) => score.threshold > 0 ? score.lift / score.threshold : score.lift;
  judged.sort((a, b) => b[1].passed - a[1].passed || strength(b) - strength(a));
  const absent = [...head.scores].filter(([, score]) => score === null).map(([name]) => wordsOf(name));
  const rows = judged.map(([name, score]) => row(wordsOf(labelText(head, name)), liftText(score.lift),
    `${intervalText(score.interval)}${score.threshold === null ? "" : ` (line ${shortNumber(score.threshold)})`}`, score.passed));
  if (absent.length > 0) rows.push(element("tr", {}, element("td", { colSpan: 3, className: "low", }, `Not judged: ${absent.join(", ")}`)));
  return rows;
}

function nearestRows(head) {
  return head.nearest.filter((each) => own.at.has(nameOf(each))).map((each) => {
    const n = own.at.get(nameOf(each));
    const opener = element("button", { type: "button", className: "plain", onclick: () => openHead(n, true) }, nameOf(each));
    const compare = element("button", { type: "button", className: "plain", ariaLabel: `Compare with ${nameOf(each)}`, onclick: () => compareWith(n) }, "compare");
    const numbers = `looks alike ${shortNumber(each.looks)}, writes alike ${shortNumber(each.writes)}, cosine ${shortNumber(each.cosine)}`;
    return element("tr", {}, element("td", {}, opener), element("td", {}, numbers), element("td", {}, compare));
  });
}

function showDetails() {
  const head = own.heads[state.n];
  byId("details-name").textContent = `Layer ${head.layer}, head ${head.head}`;
  byId("details-role").textContent = wordsOf(roleText(head));
  const numbers = (map) => [...map].map(([name, x]) => row(wordsOf(name), shortNumber(x)));
  const importance = [...(head.importance === null ? [] : [row("importance", shortNumber(head.importance), "heads are ranked by it")]), ...numbers(head.importances)];
  const alike = [...(head.replaceable === null ? [] : [row("replaceable", shortNumber(head.replaceable), "R² given the other heads of its layer")]),
                 ...(own.groups.has(head.cluster) ? [row("group", String(head.cluster), `of ${own.groups.get(head.cluster).length} heads that write alike`)] : [])];
  const statistics = [...(head.dependsOn ? [row("depends on", head.dependsOn)] : []), ...numbers(head.statistics)];
  byId("details-body").replaceChildren(
    ...section("Roles", ["role", "lift", "95 % interval, line"], scoreRows(head)),
    ...section("Importance", ["score", "", ""], importance),
    ...section("Nearest heads", ["head", "", ""], nearestRows(head)),
    ...section("In common", ["", "", ""], alike),
    ...section("Statistics", ["", "mean", ""], statistics));
}
