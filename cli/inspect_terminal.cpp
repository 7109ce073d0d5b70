// The table of heads and the drawing of one, in the characters of a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "inspect.hpp"

namespace multihead::cli {
namespace {

constexpr int kLabelColumns = 14;
constexpr std::array kShades = {"  ", "░░", "▒▒", "▓▓", "██"};

std::string number(const std::optional<double>& value, double factor, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value * factor) : "-";
}

/// Nine bars, as high as the square root of what goes to the token 4 before .. the query itself .. 4 after.
std::string offset_drawing(const std::vector<double>& offsets) {
  std::string bars;
  for (const double share : offsets) bars += bar(std::sqrt(share));
  return bars;
}

/// "cat → sat .91", as many as fit, with names as long as fit.
std::string links_text(const Inspection& inspection, const HeadStatistics& each, int width) {
  std::string text;
  int used = 0;
  const int longest = std::min(kLabelColumns, (width - 8) / 2);
  for (const lens::Link& link : each.summary.links) {
    const auto name = [&](index_t token) {
      return fitted(inspection.tokens.tokens[static_cast<std::size_t>(token)].text, longest);
    };
    const std::string one =
        fmt::format("{}{} → {} {:.2f}", text.empty() ? "" : "   ", name(link.query), name(link.key), link.prob);
    used += display_width(one);
    if (used > width) break;
    text += one;
  }
  return text;
}

/// How dark a weight is drawn, 0 .. 4, on a scale of square roots up to `most`.
std::size_t shade(double weight, double most) {
  if (!(weight > 0) || !(most > 0)) return 0;
  return std::min<std::size_t>(4, static_cast<std::size_t>(std::lround(4.0 * std::sqrt(weight / most))));
}

/// The least weight of each shade: ((n - 1/2) / 4)^2 of the largest.
std::string shade_legend(double most, const Style& style, int width) {
  constexpr int kEntry = 13, kGap = 3;  // "██ from 0.123"
  std::string text;
  int used = 0;
  for (std::size_t n = 1; n < kShades.size(); ++n) {
    const double least = std::pow((static_cast<double>(n) - 0.5) / 4.0, 2) * most;
    const bool fits = used + kGap + kEntry <= width;
    if (n > 1) text += fits ? std::string(kGap, ' ') : "\n";
    used = (n > 1 && fits ? used + kGap : 0) + kEntry;
    text += fmt::format("{}{}{} from {:.3f}", style.accent, kShades[n], style.off, least);
  }
  return text;
}

double largest(lens::HeadMap probs) {
  double most = 0;
  for (index_t i = 0; i < probs.shape(0); ++i) {
    for (index_t j = 0; j < probs.shape(1); ++j) most = std::max<double>(most, probs(i, j));
  }
  return most;
}

/// Column names downwards, one grapheme a line, each in the two columns of its cells.
std::string column_names(const std::vector<ReportToken>& tokens, int indent, const Style& style) {
  constexpr std::size_t kMostLines = 10;
  std::vector<std::vector<std::string>> names;
  std::size_t lines = 0;
  for (const ReportToken& token : tokens) {
    std::vector<std::string> name = graphemes(printable(token.text));
    if (name.size() > kMostLines) {
      name.resize(kMostLines - 1);
      name.emplace_back("…");
    }
    lines = std::max(lines, name.size());
    names.push_back(std::move(name));
  }
  std::string text;
  for (std::size_t line = 0; line < lines; ++line) {
    std::string row(static_cast<std::size_t>(indent), ' ');
    for (const auto& name : names) {
      const std::size_t skipped = lines - name.size();  // names end at the map
      row += left(line < skipped ? "" : name[line - skipped], 2);
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += style.dim + row + style.off + "\n";
  }
  return text;
}

/// Columns that the longest name of a row takes.
int label_columns(const std::vector<ReportToken>& tokens) {
  int label = 0;
  for (const ReportToken& token : tokens) label = std::max(label, display_width(printable(token.text)));
  return std::min(label, kLabelColumns);
}

std::string token_map(const Inspection& inspection, lens::HeadMap probs, double most, const Style& style) {
  const std::vector<ReportToken>& tokens = inspection.tokens.tokens;
  const int label = label_columns(tokens);
  std::string text = column_names(tokens, label + 2, style);
  for (index_t i = 0; i < probs.shape(0); ++i) {
    text += right(tokens[static_cast<std::size_t>(i)].text, label) + "  " + style.accent;
    std::string row;
    for (index_t j = 0; j < probs.shape(1); ++j) row += kShades[shade(probs(i, j), most)];
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + style.off + "\n";
  }
  return text;
}

/// The whole map in blocks, each as dark as its largest weight; numbers are positions.
std::string picture(lens::HeadMap probs, double most, int width, const Style& style) {
  constexpr int kIndent = 6;
  const index_t columns = std::min<index_t>(probs.shape(1), std::min(64, (width - kIndent) / 2));
  const index_t rows = std::min<index_t>(probs.shape(0), columns);
  std::string text = fmt::format("{}{:>{}}key 0 .. {}{}\n", style.dim, "", kIndent, probs.shape(1) - 1, style.off);
  for (index_t row = 0; row < rows; ++row) {
    const index_t begin = row * probs.shape(0) / rows;
    std::vector<double> blocks(static_cast<std::size_t>(columns));
    for (index_t i = begin; i < (row + 1) * probs.shape(0) / rows; ++i) {
      for (index_t j = 0; j < probs.shape(1); ++j) {
        double& block = blocks[static_cast<std::size_t>(j * columns / probs.shape(1))];
        block = std::max<double>(block, probs(i, j));
      }
    }
    std::string line;
    for (const double block : blocks) line += kShades[shade(block, most)];
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("{}{:>4}{}  {}{}{}\n", style.dim, row % 4 == 0 ? std::to_string(begin) : "", style.off,
                        style.accent, line, style.off);
  }
  return text;
}

/// The columns of the table, as many as the width has room for.
struct TableColumns {
  static constexpr int kHead = 8, kEntropy = 7, kSpread = 10, kSpecial = 9, kOffsets = 11, kFewestLinks = 20;
  TableWidth row;
  bool spread, special, offsets;
  int links;  // 0 = none

  explicit TableColumns(int width)
      : row{width, kHead + kEntropy},
        spread(row.take(kSpread)),
        special(row.take(kSpecial)),
        offsets(row.take(kOffsets)),
        links(row.width - row.used - 2) {
    if (!offsets || links < kFewestLinks) links = 0;
  }
};

std::string table_titles(const TableColumns& columns, const Style& style) {
  std::string text = fmt::format("{:<8}{:>7}", " head", "entropy");
  if (columns.spread) text += fmt::format("  {:>8}", "~tokens");
  if (columns.special) text += fmt::format("  {:>7}", "special");
  if (columns.offsets) text += fmt::format("  {:<9}", "-4 .. +4");
  if (columns.links > 0) text += columns.links >= 30 ? "  strongest links between tokens" : "  strongest links";
  return style.bold + text + style.off + "\n";
}

std::string table_row(const Inspection& inspection, const HeadStatistics& each, const TableColumns& columns,
                      const Style& style) {
  const bool shown = LayerHead{each.layer, each.head} == inspection.shown;
  std::string text =
      fmt::format("{}{:<7}{}{:>7}", shown ? style.strong + ">" : " ", fmt::format("{}.{}", each.layer, each.number),
                  style.off, number(each.summary.entropy, 1, "{:.2f}"));
  const std::optional<double> spread =
      each.summary.entropy ? std::optional(std::exp(*each.summary.entropy)) : std::nullopt;
  if (columns.spread) text += fmt::format("  {:>8}", number(spread, 1, "{:.1f}"));
  if (columns.special) text += fmt::format("  {:>7}", number(each.summary.special_share, 100, "{:.0f}%"));
  if (columns.offsets) text += fmt::format("  {}{}{}", style.accent, offset_drawing(each.offsets), style.off);
  if (columns.links > 0) text += "  " + links_text(inspection, each, columns.links);
  return text + "\n";
}

std::string table_notes(const TableColumns& columns) {
  std::string text = "head: layer.head, from 0. entropy: mean over rows, in nats";
  text += columns.spread ? "; ~tokens = exp(entropy)." : ".";
  if (columns.special) text += " special: mean share on special tokens.";
  if (columns.offsets) {
    text +=
        " -4 .. +4: mean weight on the token 4 before to 4 after, the query itself in the middle (height: square "
        "root).";
  }
  return text + (columns.links > 0 ? " Links: largest weights, special tokens aside." : "");
}

}  // namespace

std::string heads_table(const Inspection& inspection, const Style& style, int width) {
  const TableColumns columns(width);
  std::string text = table_titles(columns, style);
  for (const HeadStatistics& each : inspection.heads) {
    if (each.head == 0 && each.layer > 0) text += "\n";
    text += table_row(inspection, each, columns, style);
  }
  return text + "\n" + paragraph(table_notes(columns), std::min(width, 110), 0, style.dim, style.off);
}

std::string map_drawing(const Inspection& inspection, const Style& style, int width) {
  const auto [layer, head] = inspection.shown;
  const lens::HeadMap probs = map_of(inspection.run, layer, head);
  const index_t original = inspection.run.original_head(layer, head);
  const double most = largest(probs);
  const bool fits = label_columns(inspection.tokens.tokens) + 2 + 2 * probs.shape(1) <= width;
  // Chosen for what it does, which can only be said where the text has distant tokens.
  const bool chosen = !inspection.shown_was_asked_for && inspection.shown_confidence.value_or(0) > 0;
  const std::string text = fmt::format("Layer {}, head {}{}. Row: query, column: key.", layer, original,
                                       chosen ? ", the one that looks most surely at distant tokens" : "");
  return paragraph(text, width, 0, style.bold, style.off) + "\n" +
         (fits ? token_map(inspection, probs, most, style) : picture(probs, most, width, style)) + "\n" +
         shade_legend(most, style, width) + "\n";
}

}  // namespace multihead::cli
