// Weights as text: never more decimals than are stored, never fewer figures than can be told apart.

// At least `figures` figures of a weight, at most `digits` decimals; what is stored as 0 is less than half a step.
function weightText(w, digits, figures = 4) {
  if (!(w > 0)) return nothingText(digits);
  const decimals = Math.max(figures - 1 - Math.floor(Math.log10(w)), figures);
  const text = w.toFixed(Math.max(0, Math.min(digits, decimals)));
  return Number(text) > 0 ? text : nothingText(digits);
}

function nothingText(digits) {
  return `<${(0.5 / 10 ** digits).toFixed(digits + 1)}`;
}

// All decimals that are stored.
function exactText(w, digits) {
  return w > 0 && w >= 0.5 / 10 ** digits ? w.toFixed(digits) : nothingText(digits);
}
