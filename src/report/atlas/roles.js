// How a role is shown: two letters and a colour. Kinds of roles have the hues of Okabe & Ito, which people without some
// colours can tell apart; roles of one kind differ by lightness; the letters name each alone. Dark text is read on all.

const roleTable = [
  ["previous", "pr", "#56b4e9", "looks at the token before"],
  ["next", "nx", "#8ccdf2", "looks at the token after"],
  ["self", "se", "#b5def7", "looks at the token itself"],
  ["offset", "of", "#7fb0cf", "looks at a fixed distance"],
  ["local", "lo", "#2fb58d", "looks at tokens nearby"],
  ["long_range", "lr", "#86d6bd", "looks far away"],
  ["broad", "br", "#f0e442", "looks at everything alike"],
  ["first", "fi", "#e69f00", "looks at the first token"],
  ["separator", "sp", "#f0b840", "looks at special tokens but the first"],
  ["punctuation", "pu", "#f7d58a", "looks at punctuation"],
  ["parked", "pk", "#e69f00", "looks at a token that means nothing and writes little"],
  ["duplicate", "du", "#d98ab6", "looks at earlier copies of a token"],
  ["induction", "in", "#e8752a", "looks at what followed an earlier copy"],
  ["rare_word", "ra", "#ecbcd5", "looks at the rarest token"],
  ["syntactic", "sy", "#b3a2e8", "follows a dependency relation"],
];
const roleStyles = new Map(roleTable.map(([name, letters, fill, meaning]) => [name, { name, letters, fill, meaning, hollow: name === "parked" }]));
const noRole = { name: "unassigned", letters: "", fill: null, meaning: "no role fits", hollow: true };
const notJudged = { name: "n/a", letters: "×", fill: null, meaning: "nothing could be judged", hollow: true };

// Of any text: a role that this page does not know has its own first letters.
function roleStyle(name) {
  if (name === noRole.name) return noRole;
  if (name === notJudged.name) return notJudged;
  return roleStyles.get(name) ?? { name, letters: Array.from(name).slice(0, 2).join(""), fill: "#c3c9d2", meaning: name, hollow: false };
}

const darkText = "#14181f";
