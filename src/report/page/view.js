// From the stored map to what is looked at: word pieces or words, with or without special tokens.

// [{text, special, members}]: one entry a piece, or one a word in the order of their first pieces.
function groupsOf(side, byWord, hideSpecial) {
  const groups = [];
  const ofWord = new Map();
  side.tokens.forEach((token, i) => {
    const word = side.word[i];
    const special = side.special[i] === 1;
    if (byWord && word >= 0 && ofWord.has(word)) {
      const group = ofWord.get(word);
      group.members.push(i);
      group.special = group.special && special;
      return;
    }
    const text = visibleText(byWord && word >= 0 ? side.words[word] : token);
    const group = { text, special, members: [i] };
    groups.push(group);
    if (byWord && word >= 0) ofWord.set(word, group);
  });
  return hideSpecial ? groups.filter((group) => !group.special) : groups;
}

// Both sides as they are looked at.
function sidesOf(byWord, hideSpecial) {
  const queries = groupsOf(data.queries, byWord, hideSpecial);
  const keys = groupsOf(data.keys, byWord, hideSpecial);
  return { queries, keys, hideSpecial };
}

// {rows, columns, weights [rows x columns], most}: mean over query pieces of the sum over key pieces; where specials
// are hidden each row is divided by what remains of it (a row of which nothing remains stays 0).
function weightsOf(counts, sides, digits) {
  const steps = 10 ** digits;
  const rows = sides.queries.length;
  const columns = sides.keys.length;
  const stride = data.keys.tokens.length;
  const weights = new Float32Array(rows * columns);
  let most = 0;
  sides.queries.forEach((query, i) => {
    const scale = 1 / (steps * query.members.length);
    let sum = 0;
    for (let j = 0; j < columns; ++j) {
      let n = 0;
      for (const row of query.members) {
        for (const column of sides.keys[j].members) n += counts[row * stride + column];
      }
      sum += weights[i * columns + j] = n * scale;
    }
    const divisor = sides.hideSpecial && sum > 0 ? sum : 1;
    for (let j = 0; j < columns; ++j) {
      const w = weights[i * columns + j] /= divisor;
      if (w > most) most = w;
    }
  });
  return { rows, columns, weights, most, digits };
}

// The mean of maps of one size.
function meanOf(maps) {
  if (maps.length === 1) return maps[0];
  const [{ rows, columns }] = maps;
  const weights = new Float32Array(rows * columns);
  for (const map of maps) map.weights.forEach((w, at) => { weights[at] += w / maps.length; });
  return { rows, columns, weights, most: weights.reduce((a, b) => Math.max(a, b), 0), digits: maps.reduce((most, map) => Math.max(most, map.digits), 0) };
}

// The k largest of weight(0 .. count-1), largest first, without zeros.
function largest(count, k, weight) {
  const found = [];
  for (let index = 0; index < count; ++index) {
    const w = weight(index);
    if (!(w > 0) || (found.length === k && w <= found[k - 1].w)) continue;
    let at = found.length;
    while (at > 0 && found[at - 1].w < w) --at;
    found.splice(at, 0, { index, w });
    if (found.length > k) found.pop();
  }
  return found;
}
