// All heads as small maps, layers down, heads across, on one canvas. Each is filled in as soon as it is decoded.

const gridMargin = { left: 26, top: 20 };
const largestThumbnail = 96;       // px
const smallestThumbnail = 14;      // px
const smallestWithNumber = 26;     // px: below it there is no room for a head's largest weight
const numberHeight = 12;           // px

// {size, gap, foot}: px of a small map, between two, and below each for its largest weight. As large as fits a panel
// `available` px wide and, where it can be, `tallest` px high.
function gridLayout(available, tallest, withNumbers) {
  const gap = mostHeads > 16 ? 3 : 5;
  const across = Math.floor((available - gridMargin.left) / mostHeads) - gap;
  const down = Math.floor((tallest - gridMargin.top) / numLayers) - gap;
  const fit = (foot) => Math.max(smallestThumbnail, Math.min(largestThumbnail, across, down - foot));
  const foot = withNumbers && fit(numberHeight) >= smallestWithNumber ? numberHeight : 0;
  const size = fit(foot);
  return { size, gap, foot, width: gridMargin.left + mostHeads * (size + gap),
           height: gridMargin.top + numLayers * (size + foot + gap) + 2 };
}

function gridPlace(layout, { layer, head }) {
  return { x: gridMargin.left + head * (layout.size + layout.gap),
           y: gridMargin.top + layer * (layout.size + layout.foot + layout.gap) };
}

// A map of at most `pixels` x `pixels`: each pixel holds the largest weight of its cells, so that a single strong link
// stays in sight.
function pooledMap(map, pixels) {
  const width = Math.max(1, Math.min(pixels, map.columns));
  const height = Math.max(1, Math.min(pixels, map.rows));
  const pooled = { rows: height, columns: width, weights: new Float32Array(width * height), most: map.most, digits: map.digits };
  const columnOf = Int32Array.from({ length: map.columns }, (_, j) => Math.floor(j * width / map.columns));
  for (let i = 0; i < map.rows; ++i) {
    const base = Math.floor(i * height / map.rows) * width;
    for (let j = 0, at = i * map.columns; j < map.columns; ++j, ++at) {
      const w = map.weights[at];
      if (w > pooled.weights[base + columnOf[j]]) pooled.weights[base + columnOf[j]] = w;
    }
  }
  pooled.picture = keptPicture(pooled);
  return pooled;
}

function drawGridFrame(surface, layout, theme) {
  surface.rect(0, 0, layout.width, layout.height, { fill: theme.paper });
  const everyHead = layout.size + layout.gap < 18 ? 4 : 1;
  for (let head = 0; head < mostHeads; head += everyHead) {
    const { x } = gridPlace(layout, { layer: 0, head });
    surface.text(String(head), x + layout.size / 2, 9, { size: 10.5, fill: theme.soft, align: "center" });
  }
  for (let layer = 0; layer < numLayers; ++layer) {
    const { y } = gridPlace(layout, { layer, head: 0 });
    surface.text(String(layer), gridMargin.left - 9, y + layout.size / 2, { size: 10.5, fill: theme.soft, align: "right" });
  }
}

// `picture`: a canvas, or null while the head is not decoded; `most`: its largest weight as text, or "".
function drawThumbnail(surface, layout, at, picture, most, theme, chosen, pointed) {
  const { x, y } = gridPlace(layout, at);
  surface.rect(x - 2.5, y - 2.5, layout.size + 5, layout.size + 5 + layout.foot, { fill: theme.paper });
  if (picture) surface.picture(picture, x, y, layout.size, layout.size, false);
  else surface.rect(x, y, layout.size, layout.size, { fill: theme.rule, alpha: 0.5 });
  if (chosen) surface.rect(x - 1.5, y - 1.5, layout.size + 3, layout.size + 3, { stroke: theme.key, radius: 2 });
  else surface.rect(x, y, layout.size, layout.size, { stroke: pointed ? theme.query : theme.rule });
  if (most && layout.foot > 0) {
    surface.text(most, x + layout.size / 2, y + layout.size + 8, { size: 9.5, fill: theme.soft, align: "center" });
  }
}

// Index into data.heads under a point, or -1.
function gridAt(layout, x, y) {
  const head = Math.floor((x - gridMargin.left) / (layout.size + layout.gap));
  const layer = Math.floor((y - gridMargin.top) / (layout.size + layout.foot + layout.gap));
  return head < 0 || layer < 0 ? -1 : headAt(layer, head);
}
