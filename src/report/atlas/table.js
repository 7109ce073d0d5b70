// All heads as a table; a click on a column sorts.

function tableColumns() {
  const base = [
    { key: "head", name: "head", value: (head) => head.n, text: nameOf },
    { key: "role", name: "role", value: (head) => roleText(head), text: (head) => wordsOf(roleText(head)) },
    { key: "lift", name: "lift", value: (head) => head.scores.get(head.role)?.lift ?? null },
  ];
  const group = own.groups.size > 0 ? [{ key: "group", name: "group", value: (head) => own.groups.has(head.cluster) ? head.cluster : null, text: (head) => own.groups.has(head.cluster) ? String(head.cluster) : "–" }] : [];
  const kept = [...measures].filter(([name]) => !name.startsWith("value_weighted") && name !== "normalised_entropy");
  return [...base, ...group, ...kept.map(([name, value]) => ({ key: name, name: wordsOf(name), value }))];
}

// What has no number comes last.
function sortedHeads(columns) {
  const column = columns.find((each) => each.key === state.sort) ?? columns[0];
  const sign = state.down ? -1 : 1;
  return own.heads.filter(isShown).sort((a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    if (x === null || y === null) return (x === null) - (y === null) || a.n - b.n;
    return sign * (typeof x === "string" ? x.localeCompare(y) : x - y) || a.n - b.n;
  });
}

function sortBy(key) {
  state.down = state.sort === key ? !state.down : key !== "head" && key !== "role";
  state.sort = key;
  showView(true);
  document.querySelector(`#figure th button[data-key="${CSS.escape(key)}"]`)?.focus();
}

function tableElement() {
  const columns = tableColumns();
  const head = columns.map((column) => {
    const sorted = column.key === state.sort;
    const button = element("button", { type: "button", dataset: { key: column.key }, onclick: () => sortBy(column.key) }, `${column.name}${sorted ? state.down ? " ↓" : " ↑" : ""}`);
    const cell = element("th", { className: column.text ? "" : "n", scope: "col" }, button);
    if (sorted) cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    return cell;
  });
  const rows = sortedHeads(columns).map((each) => {
    const opener = element("button", { type: "button", className: "plain", dataset: { n: each.n }, onclick: () => openHead(each.n, true) }, nameOf(each));
    const cells = columns.slice(1).map((column) => element("td", { className: column.text ? "" : "n" }, column.text ? column.text(each) : shortNumber(column.value(each))));
    return element("tr", { className: each.n === state.n ? "open" : "" }, element("td", {}, opener), ...cells);
  });
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}

function tableNumbers() {
  const columns = tableColumns();
  return { columns: columns.map((column) => column.name),
           rows: sortedHeads(columns).map((head) => columns.map((column) => column.key === "head" ? nameOf(head) : column.value(head))) };
}

const tableView = {
  label: "Table",
  name: "All heads",
  facts: () => `${own.heads.filter(isShown).length} of ${own.heads.length} heads`,
  figure: () => figureOfTable(tableNumbers()),
  numbers: tableNumbers,
  controls: () => [searchControl()],
  show: (box) => box.append(tableElement()),
};
