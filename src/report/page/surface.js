// What the figures are drawn on: a canvas, or an SVG text with the same calls. Lengths are CSS pixels.
//
//   rect(x, y, w, h, {fill, stroke, alpha, radius})   line(x1, y1, x2, y2, {stroke, alpha, width})
//   text(string, x, y, {fill, size, align, turn, weight, italic})   picture(canvas, x, y, w, h, smooth)   clip(x, y, w, h, draw)

const fontFamily = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Noto Sans", "Noto Sans CJK SC", sans-serif';

function fontOf({ size = 12, weight = 400, italic = false }) {
  return `${italic ? "italic " : ""}${weight} ${size}px ${fontFamily}`;
}

const measuring = document.createElement("canvas").getContext("2d");
const segmenter = "Segmenter" in Intl ? new Intl.Segmenter() : null;

function textWidth(string, style = {}) {
  measuring.font = fontOf(style);
  return measuring.measureText(string).width;
}

// The string, cut with an ellipsis at a whole character so that it is at most `width` wide.
function fitted(string, width, style = {}) {
  if (textWidth(string, style) <= width) return string;
  const parts = segmenter ? Array.from(segmenter.segment(string), (s) => s.segment) : Array.from(string);
  let low = 0;
  let high = parts.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (textWidth(parts.slice(0, middle).join("") + "…", style) <= width) low = middle;
    else high = middle - 1;
  }
  return parts.slice(0, low).join("") + "…";
}

class CanvasSurface {
  constructor(canvas, width, height, ratio) {
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    this.context = canvas.getContext("2d");
    this.context.scale(ratio, ratio);
  }
  rect(x, y, w, h, { fill, stroke, alpha = 1, radius = 0 }) {
    const c = this.context;
    c.globalAlpha = alpha;
    if (radius > 0 || stroke) {
      c.beginPath();
      if (radius > 0 && c.roundRect) c.roundRect(x, y, w, h, radius);
      else c.rect(x, y, w, h);
    }
    if (fill) {
      c.fillStyle = fill;
      if (radius > 0) c.fill();
      else c.fillRect(x, y, w, h);
    }
    if (stroke) {
      c.strokeStyle = stroke;
      c.lineWidth = 1.5;
      c.stroke();
    }
  }
  line(x1, y1, x2, y2, { stroke, alpha = 1, width = 1 }) {
    const c = this.context;
    const bend = (x2 - x1) / 2;
    c.globalAlpha = alpha;
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.beginPath();
    c.moveTo(x1, y1);
    c.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
    c.stroke();
  }
  text(string, x, y, style) {
    const c = this.context;
    c.save();
    c.globalAlpha = 1;
    c.font = fontOf(style);
    c.fillStyle = style.fill;
    c.textAlign = style.align ?? "left";
    c.textBaseline = "middle";
    c.direction = "ltr";
    c.translate(x, y);
    c.rotate((style.turn ?? 0) * Math.PI / 180);
    c.fillText(string, 0, 0);
    c.restore();
  }
  picture(canvas, x, y, w, h, smooth) {
    const c = this.context;
    c.globalAlpha = 1;
    c.imageSmoothingEnabled = smooth;
    c.imageSmoothingQuality = "high";
    c.drawImage(canvas, x, y, w, h);
  }
  clip(x, y, w, h, draw) {
    const c = this.context;
    c.save();
    c.beginPath();
    c.rect(x, y, w, h);
    c.clip();
    draw();
    c.restore();
  }
}

function escapeXml(text) {
  // XML 1.0 has no way to write most controls; visibleText has replaced them before.
  return text.replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);
}

class SvgSurface {
  constructor(width, height) {
    this.parts = [`<svg xmlns="http://www.w3.org/2000/svg" width="${round(width)}" height="${round(height)}" ` +
      `viewBox="0 0 ${round(width)} ${round(height)}" font-family="${escapeXml(fontFamily)}">`];
    this.clips = 0;
  }
  rect(x, y, w, h, { fill = "none", stroke, alpha = 1, radius = 0 }) {
    this.parts.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(h)}" fill="${fill}"` +
      (radius ? ` rx="${radius}"` : "") + (stroke ? ` stroke="${stroke}" stroke-width="1.5"` : "") +
      (alpha < 1 ? ` opacity="${round(alpha)}"` : "") + "/>");
  }
  line(x1, y1, x2, y2, { stroke, alpha = 1, width = 1 }) {
    const bend = (x2 - x1) / 2;
    this.parts.push(`<path d="M${round(x1)} ${round(y1)}C${round(x1 + bend)} ${round(y1)} ${round(x2 - bend)} ${round(y2)} ` +
      `${round(x2)} ${round(y2)}" fill="none" stroke="${stroke}" stroke-width="${round(width)}" opacity="${round(alpha)}"/>`);
  }
  text(string, x, y, { fill, size = 12, align = "left", turn = 0, weight = 400, italic = false }) {
    const anchor = { left: "start", right: "end", center: "middle" }[align];
    this.parts.push(`<text transform="translate(${round(x)} ${round(y)})${turn ? ` rotate(${turn})` : ""}" fill="${fill}" ` +
      `font-size="${size}" font-weight="${weight}" text-anchor="${anchor}" dominant-baseline="central"` +
      (italic ? ' font-style="italic"' : "") + `>${escapeXml(string)}</text>`);
  }
  picture(canvas, x, y, w, h, smooth) {
    this.parts.push(`<image x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(h)}" preserveAspectRatio="none" ` +
      `style="image-rendering:${smooth ? "auto" : "pixelated"}" href="${canvas.toDataURL("image/png")}"/>`);
  }
  clip(x, y, w, h, draw) {
    const id = `clip${this.clips++}`;
    this.parts.push(`<clipPath id="${id}"><rect x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(h)}"/></clipPath>` +
      `<g clip-path="url(#${id})">`);
    draw();
    this.parts.push("</g>");
  }
  toString() {
    return this.parts.join("\n") + "\n</svg>\n";
  }
}

function round(x) {
  return Math.round(x * 1000) / 1000;
}
