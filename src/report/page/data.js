// The data of the page: JSON, and one packed map a head (src/report/pack_map.hpp says how).

const data = JSON.parse(document.getElementById("data").textContent);
const numLayers = 1 + Math.max(...data.heads.map((head) => head.layer));
const mostHeads = 1 + Math.max(...data.heads.map((head) => head.head));

// Index into data.heads, or -1.
function headAt(layer, head) {
  return data.heads.findIndex((h) => h.layer === layer && h.head === head);
}

async function inflated(base64) {
  const text = atob(base64);
  const packed = new Uint8Array(text.length);
  for (let k = 0; k < packed.length; ++k) packed[k] = text.charCodeAt(k);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Planes of bytes, column by column -> whole multiples of 10^-digits, row by row.
function joined(planes, rows, columns) {
  const size = rows * columns;
  const numPlanes = size === 0 ? 0 : planes.length / size;
  const counts = numPlanes > 2 ? new Uint32Array(size) : new Uint16Array(size);
  for (let j = 0, at = 0; j < columns; ++j) {
    for (let i = 0; i < rows; ++i, ++at) {
      let n = planes[at];
      for (let plane = 1; plane < numPlanes; ++plane) n |= planes[plane * size + at] << (8 * plane);
      counts[i * columns + j] = n;
    }
  }
  return counts;
}

const mapPromises = new Map();

// Promise of the weights of data.heads[n] as integers, [queries x keys]; decoded once.
function mapOf(n) {
  if (!mapPromises.has(n)) {
    const { layer, head } = data.heads[n];
    const element = document.getElementById(`map-${layer}-${head}`);
    mapPromises.set(n, inflated(element.textContent).then((planes) => {
      element.remove();  // the text is not needed again
      return joined(planes, data.queries.tokens.length, data.keys.tokens.length);
    }));
  }
  return mapPromises.get(n);
}
