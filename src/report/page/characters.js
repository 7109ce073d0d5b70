// Characters that cannot be seen, made visible: controls, marks of direction, joiners, blanks, whatever has no width and
// whatever has no character. No token then looks like another, hides, or turns its neighbours around.

const blankNames = { "\n": "\u23ce", "\t": "\u21e5", "\r": "\u240d", " ": "\u2423" };

// Emoji are kept whole: what joins their parts is seen by its effect. (The second pattern is for browsers without the v flag.)
const emoji = (() => {
  try {
    return new RegExp("\\p{RGI_Emoji}", "v").source;
  } catch {
    return "\\p{Extended_Pictographic}\\p{EMod}?(?:\\u200d\\p{Extended_Pictographic}\\p{EMod}?\\ufe0f?)+";
  }
})();
const unseen = "[\\p{C}\\p{Z}\\p{Default_Ignorable_Code_Point}\\u2800]";
const emojiOrUnseen = (() => {
  try {
    return new RegExp(`${emoji}|${unseen}`, "gv");
  } catch {
    return new RegExp(`${emoji}|${unseen}`, "gu");
  }
})();
const oneUnseen = new RegExp(`^${unseen}$`, "u");

function withNames(text, kept) {
  const marked = text.replace(emojiOrUnseen, (found) => {
    if (kept.includes(found) || !oneUnseen.test(found)) return found;
    return blankNames[found] ?? `[U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`;
  });
  return marked.replace(/^\p{M}/u, "\u25cc$&");  // an accent alone needs a letter to stand on
}

// A token as it is shown.
function visibleText(text) {
  return text === "" ? "(empty)" : withNames(text, "");
}

// A running text as it is shown: its spaces and line ends stay.
function visibleProse(text) {
  return withNames(text, " \n");
}
