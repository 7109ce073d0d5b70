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

/// "cat → sat .91", as many as fit.
std::string links_text(const Inspection& inspection, const HeadStatistics& each, int width) {
  std::string text;
  int used = 0;
  for (const lens::Link& link : each.summary.links) {
    const auto name = [&](index_t token) {
      return fitted(inspection.tokens.tokens[static_cast<std::size_t>(token)].text, kLabelColumns);
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
std::string shade_legend(double most, const Style& style) {
  std::string text;
  for (std::size_t n = 1; n < kShades.size(); ++n) {
    const double least = std::pow((static_cast<double>(n) - 0.5) / 4.0, 2) * most;
    text += fmt::format("{}{}{}{} from {:.3f}", n == 1 ? "" : "   ", style.accent, kShades[n], style.off, least);
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

std::string token_map(const Inspection& inspection, lens::HeadMap probs, double most, const Style& style) {
  const std::vector<ReportToken>& tokens = inspection.tokens.tokens;
  int label = 0;
  for (const ReportToken& token : tokens) label = std::max(label, display_width(printable(token.text)));
  label = std::min(label, kLabelColumns);
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

}  // namespace

std::string heads_table(const Inspection& inspection, const Style& style, int width) {
  constexpr int kLeft = 44;  // columns before the links
  std::string text = fmt::format("{}{:<8}{:>7}  {:>8}  {:>7}  {:<11}strongest links between tokens{}\n", style.bold,
                                 " head", "entropy", "~tokens", "special", "-4 .. +4", style.off);
  for (const HeadStatistics& each : inspection.heads) {
    if (each.head == 0 && each.layer > 0) text += "\n";
    const bool shown = LayerHead{each.layer, each.head} == inspection.shown;
    const std::optional<double> spread =
        each.summary.entropy ? std::optional(std::exp(*each.summary.entropy)) : std::nullopt;
    const std::string mark = shown ? style.strong + ">" : " ";
    const std::string name = fmt::format("{}.{}", each.layer, each.number);
    text += fmt::format("{}{:<7}{}{:>7}  {:>8}  {:>7}  {}{}{}  {}\n", mark, name,
                        style.off, number(each.summary.entropy, 1, "{:.2f}"), number(spread, 1, "{:.1f}"),
                        number(each.summary.special_share, 100, "{:.0f}%"), style.accent, offset_drawing(each.offsets),
                        style.off, links_text(inspection, each, width - kLeft - 2));
  }
  return text + "\n" + style.dim +
         "head: layer.head, from 0. entropy: mean over rows, in nats; ~tokens = exp(entropy).\n"
         "special: mean share on special tokens. -4 .. +4: mean weight on the token 4 before to 4 after, the\n"
         "query itself in the middle (height: square root). Links: largest weights, special tokens aside.\n" +
         style.off;
}

std::string map_drawing(const Inspection& inspection, const Style& style, int width) {
  const auto [layer, head] = inspection.shown;
  const lens::HeadMap probs = map_of(inspection.run, layer, head);
  const index_t designed = inspection.run.designed_head(layer, head);
  const double most = largest(probs);
  const bool fits = kLabelColumns + 2 + 2 * probs.shape(1) <= width;
  const char* why = inspection.shown_was_asked_for ? "" : ", the one that looks most surely at distant tokens";
  return fmt::format(
      "{}Layer {}, head {}{}{}. Row: query, column: key.\n\n{}\n{}\n", style.bold, layer, designed, style.off, why,
      fits ? token_map(inspection, probs, most, style) : picture(probs, most, width, style), shade_legend(most, style));
}

}  // namespace multihead::cli
