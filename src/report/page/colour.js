// Colours. They are variables of page.css, under the light and under the dark theme; the figures read them from there.
// A ramp is one hue from paper to ink: lightness falls (rises) steadily along it, so that it also reads in grey and
// without colour vision.

function themeOf(name) {
  const probe = element("i", { hidden: true, dataset: { theme: name } });
  document.body.append(probe);
  const style = getComputedStyle(probe);
  const theme = {};
  for (const colour of ["paper", "ink", "soft", "rule", "query", "key"]) theme[colour] = style.getPropertyValue(`--${colour}`).trim();
  theme.tint = Number(style.getPropertyValue("--tint-most"));  // the share of a tint's colour under text, at most
  theme.ramp = rampOf(style.getPropertyValue("--ramp").trim().split(/\s+/));
  theme.css = theme.ramp.map(([r, g, b]) => `rgb(${r},${g},${b})`);
  theme.pixels = Uint32Array.from(theme.ramp, ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0);  // bytes r g b a
  probe.remove();
  return theme;
}

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

const themes = { light: themeOf("light"), dark: themeOf("dark") };

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
  const pixels = new Uint32Array(image.data.buffer);
  for (let at = 0; at < map.weights.length; ++at) pixels[at] = theme.pixels[shadeOf(map.weights[at], most, scale)];
  context.putImageData(image, 0, 0);
  return canvas;
}

// pictureOf that paints again only when the colours change.
function keptPicture(map) {
  let picture = null;
  let made = [];
  return (...colours) => {
    if (picture === null || colours.some((each, n) => each !== made[n])) {
      picture = pictureOf(map, ...colours);
      made = colours;
    }
    return picture;
  };
}
