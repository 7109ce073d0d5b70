// Figures are SVG, on the page as in a file: colours are written into them, so a file looks as the page does.

const figureFont = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Noto Sans", "Noto Sans CJK SC", sans-serif';

function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, typeof value === "number" ? Math.round(value * 100) / 100 : value);
  }
  made.append(...children);
  return made;
}

function figureOf(width, height, ...children) {
  return drawn("svg", { width, height, viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`, "font-family": figureFont, "font-size": 12 }, ...children);
}

function words(text, x, y, { fill = theme().soft, size = 12, anchor = "middle", weight = 400 } = {}) {
  return drawn("text", { x, y, fill, "font-size": size, "text-anchor": anchor, "font-weight": weight, "dominant-baseline": "central" }, text);
}

// Stripes for a second role, one pattern a role and figure.
function stripesOf(label, figure) {
  const id = `stripes-${figure}-${Array.from(label, (c) => c.codePointAt(0).toString(36)).join("-")}`;
  const fill = roleStyle(label).fill ?? theme().soft;
  return { id, pattern: drawn("pattern", { id, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    drawn("rect", { width: 5, height: 5, fill: darkText }), drawn("rect", { width: 3.4, height: 5, fill })) };
}

// A head as a circle of radius `r` about (0, 0); `stripes` fills its lower half.
function circleOf(head, r, stripes) {
  const style = roleStyle(head.role);
  const parts = [];
  if (style.hollow) {
    const parked = style.letters !== "" && style.fill !== null;
    parts.push(drawn("circle", { r, fill: theme().paper, stroke: style.fill ?? theme().soft, "stroke-width": parked ? 3.5 : 1,
                                 "stroke-dasharray": style === notJudged ? "2 2" : null }));
  } else {
    parts.push(drawn("circle", { r, fill: style.fill }));
  }
  if (stripes && r > 5) parts.push(drawn("path", { d: `M${-r} 0A${r} ${r} 0 0 0 ${r} 0Z`, fill: `url(#${stripes})` }));
  if (style.letters !== "" && r >= 8) {
    const size = Math.min(12, r * 0.95);
    const letters = words(style.letters, 0, stripes ? -size * 0.42 : 0, { fill: style.hollow ? theme().ink : darkText, size, weight: 600 });
    parts.push(letters);
  }
  return parts;
}

// A table as a figure.
function figureOfTable({ columns, rows }) {
  const text = (x) => typeof x === "number" ? shortNumber(x) : x ?? "–";
  const widths = columns.map((name, k) => 14 + 6.6 * rows.reduce((most, row) => Math.max(most, Math.min(60, String(text(row[k])).length)), name.length));
  const [left, height] = [widths.reduce((all, w) => [...all, all[all.length - 1] + w], [12]), 20];
  const lines = [columns, ...rows].flatMap((row, i) => row.map((cell, k) => {
    const shown = String(text(cell));
    return words(shown.length > 60 ? `${shown.slice(0, 59)}…` : shown, left[k], 16 + i * height, { anchor: "start", fill: i === 0 ? theme().soft : theme().ink, weight: i === 0 ? 600 : 400 });
  }));
  return figureOf(left[left.length - 1], 16 + (rows.length + 1) * height, ...lines);
}
