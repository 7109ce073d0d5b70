// Colours: one hue from paper to ink, for a light and a dark page. Lightness falls (rises) steadily along a ramp, so
// that it also reads in grey and without colour vision.

const themes = {
  light: {
    stops: ["#ffffff", "#e3ebfb", "#b5cbf5", "#7ba3ec", "#457ade", "#2350b8", "#142f79", "#0a1a45"],
    paper: "#ffffff", ink: "#1b2230", soft: "#69727f", rule: "#e3e6ea", query: "#2458d3", key: "#b4520a", line: "#2458d3",
  },
  dark: {
    stops: ["#171b22", "#1b2745", "#20397a", "#2a56b8", "#4a80e4", "#84adf5", "#bfd6fc", "#f3f8ff"],
    paper: "#171b22", ink: "#e8ebf0", soft: "#98a1ae", rule: "#2b313b", query: "#86b0ff", key: "#f3a361", line: "#86b0ff",
  },
};

function channels(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// 256 colours between the stops.
function rampOf(stops) {
  const points = stops.map(channels);
  return Array.from({ length: 256 }, (_, n) => {
    const at = n / 255 * (points.length - 1);
    const left = Math.min(points.length - 2, Math.floor(at));
    return points[left].map((c, k) => Math.round(c + (points[left + 1][k] - c) * (at - left)));
  });
}

for (const theme of Object.values(themes)) {
  theme.ramp = rampOf(theme.stops);
  theme.css = theme.ramp.map(([r, g, b]) => `rgb(${r},${g},${b})`);
}

// Position on the ramp, 0..255, of a weight on a scale that ends at `most`.
function shadeOf(w, most, scale) {
  if (!(w > 0) || !(most > 0)) return 0;
  const t = Math.min(1, w / most);
  return Math.round(255 * (scale === "root" ? Math.sqrt(t) : t));
}

// A map as a picture of one pixel a cell.
function pictureOf(map, most, scale, theme) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, map.columns);
  canvas.height = Math.max(1, map.rows);
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  for (let at = 0; at < map.weights.length; ++at) {
    const [r, g, b] = theme.ramp[shadeOf(map.weights[at], most, scale)];
    image.data.set([r, g, b, 255], 4 * at);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
