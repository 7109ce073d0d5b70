// The JSON of `multihead heads` as the page uses it. The file may be anybody's: what is no number is null, what is no text
// is left out, and a file without heads is refused with a sentence.

const mostHeadsOfFile = 20000;
const largestNumber = 9999;

const numberOr = (x) => typeof x === "number" && Number.isFinite(x) ? x : null;
const objectOr = (x) => x !== null && typeof x === "object" && !Array.isArray(x) ? x : {};
const listOr = (x) => Array.isArray(x) ? x : [];
const textOr = (x, otherwise) => typeof x === "string" ? visibleText(x.slice(0, 200)) : otherwise;
const proseOr = (x, otherwise) => typeof x === "string" ? visibleProse(x.slice(0, 1000)) : otherwise;
const isPlace = (x) => Number.isInteger(x) && x >= 0 && x <= largestNumber;

// {name: number} of an object's numbers, those of objects in it as "inner name".
function numbersOf(object, prefix = "") {
  const found = new Map();
  for (const [name, value] of Object.entries(objectOr(object))) {
    if (numberOr(value) !== null) found.set(prefix + visibleText(name), value);
    else if (prefix === "") for (const [inner, x] of numbersOf(value, `${visibleText(name)} `)) found.set(inner, x);
  }
  return found;
}

function scoreOf(value) {
  const score = objectOr(value);
  if (numberOr(score.lift) === null) return null;
  const interval = listOr(score.interval).map(numberOr);
  return { lift: score.lift, hit: numberOr(score.hit), threshold: numberOr(score.threshold), passed: score.passed === true,
           interval: interval.length === 2 && !interval.includes(null) ? interval : null, offset: numberOr(score.offset),
           active: numberOr(objectOr(score.active).lift), relation: textOr(score.relation, null) };
}

function nearestOf(value) {
  return listOr(value).map(objectOr).filter((each) => isPlace(each.layer) && isPlace(each.head)).slice(0, 10)
    .map((each) => ({ layer: each.layer, head: each.head, looks: numberOr(each.looks_alike), writes: numberOr(each.writes_alike), cosine: numberOr(each.cosine) }));
}

function headOf(value, n) {
  const head = objectOr(value);
  if (!isPlace(head.layer) || !isPlace(head.head)) throw new Error(`entry ${n} of its heads has no layer or number`);
  const position = listOr(head.position).map(numberOr);
  const labels = listOr(head.labels).filter((each) => typeof each === "string").map((each) => textOr(each));
  return { n, layer: head.layer, head: head.head, role: textOr(head.role, "n/a"), labels, cluster: numberOr(head.cluster),
           scores: new Map(Object.entries(objectOr(head.roles)).map(([name, score]) => [visibleText(name), scoreOf(score)])),
           statistics: numbersOf(head.statistics), dependsOn: textOr(objectOr(head.statistics).depends_on, null),
           importance: numberOr(head.importance), importances: numbersOf(head.importances), replaceable: numberOr(head.replaceable),
           nearest: nearestOf(head.nearest), position: position.length >= 2 && !position.includes(null) ? position : null };
}

// rows x columns of numbers, or null if it is not one for each pair.
function pairsOf(value, count) {
  const rows = listOr(value);
  if (rows.length !== count || !rows.every((row) => Array.isArray(row) && row.length === count)) return null;
  return rows.map((row) => row.map(numberOr));
}

// Throws an Error whose text is the reason.
function modelOf(json) {
  const listed = listOr(objectOr(json).heads);
  if (listed.length === 0) throw new Error("it has no list of heads");
  if (listed.length > mostHeadsOfFile) throw new Error(`it has more than ${mostHeadsOfFile} heads`);
  const heads = listed.map(headOf);
  const at = new Map(heads.map((head) => [nameOf(head), head.n]));
  if (at.size !== heads.length) throw new Error("a head is listed twice");
  const layers = new Map(listOr(json.layers).map(objectOr).map((each) => [each.layer, { effective: numberOr(each.effective_heads), averaging: numberOr(each.averaging_loss) }]));
  const similarity = objectOr(json.similarity);
  const model = { heads, at, layers, title: proseOr(json.title, null), folder: proseOr(json.model, ""), text: objectOr(json.text),
                  agreement: numbersOf(json.agreement), similarity: new Map() };
  model.layerNumbers = [...new Set(heads.map((head) => head.layer))].sort((a, b) => a - b);
  model.mostHeads = 1 + heads.reduce((most, head) => Math.max(most, head.head), 0);
  for (const name of ["looks_alike", "writes_alike", "cosine"]) {
    const pairs = pairsOf(similarity[name], heads.length);
    if (pairs) model.similarity.set(name, pairs);
  }
  const members = new Map();
  for (const head of heads) members.set(head.cluster, [...(members.get(head.cluster) ?? []), head.n]);
  model.groups = new Map([...members].filter(([cluster, each]) => cluster !== null && each.length > 1));
  model.title ??= model.folder.split("/").filter(Boolean).pop() ?? "heads";
  return model;
}

// "3.11": layer and number of a head.
function nameOf({ layer, head }) {
  return `${layer}.${head}`;
}

// Its second role, or null.
function secondRole(head) {
  return head.labels.find((label) => label !== head.role) ?? null;
}

// "syntactic obj", "offset -2"
function labelText(head, label) {
  const score = head.scores.get(label);
  if (score?.relation) return `${label} ${score.relation}`;
  return label === "offset" && score?.offset ? `offset ${score.offset > 0 ? "+" : "−"}${Math.abs(score.offset)}` : label;
}

function roleText(head) {
  return head.labels.length === 0 ? head.role : head.labels.map((label) => labelText(head, label)).join(", ");
}

// What the file lacks, in words.
function missingOf(model) {
  const lacks = [];
  if (!model.heads.some((head) => head.importance !== null || head.importances.size > 0)) lacks.push("importance");
  if (model.similarity.size === 0) lacks.push("which heads are alike");
  if (!model.heads.some((head) => head.position)) lacks.push("places on the map");
  return lacks.length > 0 ? `Not in this file: ${lacks.join(", ")}.` : "";
}
