// All heads as small maps, layers down, heads across, on one canvas. Each is filled in as soon as it is decoded.

const gridMargin = { left: 26, top: 20 };

// {size, gap}: px of a small map and between two.
function gridLayout(available) {
  const gap = mostHeads > 16 ? 3 : 5;
  const size = Math.max(14, Math.min(96, Math.floor((available - gridMargin.left) / mostHeads) - gap));
  return { size, gap, width: gridMargin.left + mostHeads * (size + gap), height: gridMargin.top + numLayers * (size + gap) + 2 };
}

function gridPlace(layout, { layer, head }) {
  return { x: gridMargin.left + head * (layout.size + layout.gap), y: gridMargin.top + layer * (layout.size + layout.gap) };
}

// A map as a picture of at most `pixels` x `pixels`: each pixel shows the largest weight of its cells, so that a single
// strong link stays in sight.
function thumbnailOf(map, pixels, scale, theme) {
  const width = Math.max(1, Math.min(pixels, map.columns));
  const height = Math.max(1, Math.min(pixels, map.rows));
  const pooled = { rows: height, columns: width, weights: new Float32Array(width * height) };
  const columnOf = Int32Array.from({ length: map.columns }, (_, j) => Math.floor(j * width / map.columns));
  for (let i = 0; i < map.rows; ++i) {
    const base = Math.floor(i * height / map.rows) * width;
    for (let j = 0, at = i * map.columns; j < map.columns; ++j, ++at) {
      const w = map.weights[at];
      if (w > pooled.weights[base + columnOf[j]]) pooled.weights[base + columnOf[j]] = w;
    }
  }
  return pictureOf(pooled, map.most, scale, theme);
}

function drawGridFrame(surface, layout, theme) {
  surface.rect(0, 0, layout.width, layout.height, { fill: theme.paper });
  const every = layout.size + layout.gap < 18 ? 4 : 1;
  for (let head = 0; head < mostHeads; head += every) {
    const { x } = gridPlace(layout, { layer: 0, head });
    surface.text(String(head), x + layout.size / 2, 9, { size: 10.5, fill: theme.soft, align: "center" });
  }
  for (let layer = 0; layer < numLayers; ++layer) {
    const { y } = gridPlace(layout, { layer, head: 0 });
    surface.text(String(layer), gridMargin.left - 9, y + layout.size / 2, { size: 10.5, fill: theme.soft, align: "right" });
  }
}

function drawThumbnail(surface, layout, at, thumbnail, theme, chosen, pointed) {
  const { x, y } = gridPlace(layout, at);
  surface.rect(x - 2.5, y - 2.5, layout.size + 5, layout.size + 5, { fill: theme.paper });
  if (thumbnail) surface.picture(thumbnail, x, y, layout.size, layout.size, false);
  else surface.rect(x, y, layout.size, layout.size, { fill: theme.rule, alpha: 0.5 });
  if (chosen) surface.rect(x - 1.5, y - 1.5, layout.size + 3, layout.size + 3, { stroke: theme.key, radius: 2 });
  else surface.rect(x, y, layout.size, layout.size, { stroke: pointed ? theme.query : theme.rule });
}

// Index into data.heads under a point, or -1.
function gridAt(layout, x, y) {
  const step = layout.size + layout.gap;
  const head = Math.floor((x - gridMargin.left) / step);
  const layer = Math.floor((y - gridMargin.top) / step);
  return head < 0 || layer < 0 ? -1 : headAt(layer, head);
}
