// The figures as files. The same drawing code writes to the screen, to SVG and to PNG.

function fileName(scene, figure, extension) {
  const { layer, head } = data.heads[scene.n];
  return `layer${layer}-${state.mean ? "mean" : `head${head}`}-${figure}.${extension}`;
}

function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Draws a whole figure, nothing scrolled away: {width, height, draw(surface)}.
function wholeFigure(scene, figure) {
  const count = Math.max(scene.map.rows, scene.map.columns);
  const layout = figure === "matrix"
    ? matrixLayout(scene, 0, count <= 128 ? 20 : Math.max(1, Math.floor(2048 / count)))
    : linesLayout(scene, 640);
  const view = { x: 0, y: 0, width: Math.ceil(layout.width), height: Math.ceil(layout.height) };
  const draw = figure === "matrix" ? drawMatrix : drawLines;
  return { ...view, draw: (surface) => draw(surface, { ...scene, cursor: scene.pin && "i" in scene.pin ? scene.pin : null, hint: null }, layout, view) };
}

function exportSvg(scene, figure) {
  const whole = wholeFigure(scene, figure);
  const surface = new SvgSurface(whole.width, whole.height);
  whole.draw(surface);
  offer(new Blob([surface.toString()], { type: "image/svg+xml" }), fileName(scene, figure, "svg"));
}

const largestCanvas = 16000;  // px: browsers refuse more

function exportPng(scene, figure) {
  const whole = wholeFigure(scene, figure);
  const canvas = document.createElement("canvas");
  const ratio = Math.min(2, largestCanvas / Math.max(whole.width, whole.height));
  whole.draw(new CanvasSurface(canvas, whole.width, whole.height, ratio));
  canvas.toBlob((blob) => offer(blob, fileName(scene, figure, "png")), "image/png");
}
