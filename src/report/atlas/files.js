// A view as a file: its figure as SVG or PNG, its numbers as CSV or JSON.

function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The figure on paper of the theme's colour, alone.
function svgText(figure) {
  const copy = figure.cloneNode(true);
  for (const node of [copy, ...copy.querySelectorAll("*")]) {
    for (const name of [...node.attributes].map((each) => each.name)) {
      if (name === "tabindex" || name === "role" || name === "class" || name.startsWith("aria-") || name.startsWith("data-")) node.removeAttribute(name);
    }
  }
  copy.prepend(drawn("rect", { width: "100%", height: "100%", fill: theme().paper }));
  return `${new XMLSerializer().serializeToString(copy)}\n`;
}

const largestSide = 16000;  // px: browsers refuse more

function savePng(figure, name) {
  const [width, height] = ["width", "height"].map((side) => Math.ceil(Number(figure.getAttribute(side))));
  const ratio = Math.min(2, largestSide / Math.max(width, height));
  const image = new Image();
  image.onload = () => {
    const canvas = element("canvas", { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => offer(blob, name), "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(figure))}`;
}

// A text that a spreadsheet would take for a formula gets an apostrophe before it.
function csvField(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csvText({ columns, rows }) {
  return [columns, ...rows].map((row) => row.map(csvField).join(",")).join("\r\n") + "\r\n";
}

function jsonText({ columns, rows }) {
  return JSON.stringify(rows.map((row) => Object.fromEntries(row.map((cell, k) => [columns[k], cell ?? null]))), null, 1) + "\n";
}

const largestFile = 200e6;  // bytes

// The JSON of a file that a person opened. Throws an Error whose text is the reason.
async function jsonOf(file) {
  if (file.size > largestFile) throw new Error(`it has more than ${largestFile / 1e6} MB`);
  try {
    return JSON.parse(await file.text());
  } catch {
    throw new Error("it is not JSON");
  }
}

function saveView(kind) {
  const view = views.get(state.view);
  const name = `heads-${state.view}.${kind}`;
  if (kind === "svg") offer(new Blob([svgText(view.figure())], { type: "image/svg+xml" }), name);
  else if (kind === "png") savePng(view.figure(), name);
  else if (kind === "csv") offer(new Blob([csvText(view.numbers())], { type: "text/csv;charset=utf-8" }), name);
  else offer(new Blob([jsonText(view.numbers())], { type: "application/json" }), name);
}
