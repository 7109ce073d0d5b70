// What is open, and what is chosen.

const own = modelOf(JSON.parse(document.getElementById("data").textContent));
const measures = measuresOf(own);
let other = null;  // a second model, from a file that was opened

const state = {
  view: "grid",
  n: 0,                    // the head whose numbers are shown
  with: null,              // the head beside it: an index into own.heads, or into other.heads where a second file is open
  role: null,              // only heads of this role are shown
  search: "",
  size: null,              // what the size of a circle means: a name of `measures`, or null
  measure: "writes_alike",
  quality: "loss",         // of a pruned model
  step: 0,                 // of the curve of a pruned model
  order: "layers",         // of the matrix, or "groups"
  sort: "head",
  down: false,
  theme: null,             // "light", "dark"; null = as the system is
};

const systemDark = matchMedia("(prefers-color-scheme: dark)");
const themeName = () => state.theme ?? (systemDark.matches ? "dark" : "light");
const theme = () => themes[themeName()];

// Whether a head is among those that are asked for.
function isShown(head) {
  if (state.role !== null && head.role !== state.role && !head.labels.includes(state.role)) return false;
  const wanted = state.search.trim().toLowerCase();
  if (wanted === "") return true;
  return nameOf(head).startsWith(wanted) || `${head.role} ${roleText(head)}`.toLowerCase().includes(wanted);
}
