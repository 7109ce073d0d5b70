// What was pruned, in the characters of a terminal.
#include <fmt/format.h>

#include <algorithm>

#include "prune.hpp"

namespace multihead::cli {
namespace {

std::string number(const std::optional<double>& value) { return value ? fmt::format("{:.3f}", *value) : "-"; }

template <class Get>
std::string band(const PrunePoint& point, const Get& get) {
  std::vector<double> values;
  for (const lens::VectorAgreement& run : point.random) {
    if (const std::optional<double> value = get(run)) values.push_back(*value);
  }
  if (values.empty()) return "-";
  std::ranges::sort(values);
  return fmt::format("{:.4f} .. {:.4f}", values.front(), values.back());
}

std::string curve_table(const PruneResult& result, const Style& style, int width) {
  const bool with_band = width >= 64;
  std::string text = style.bold +
                     fmt::format("{:>8}{:>8}{:>10}{:>9}{:>9}", "removed", "share", "loss", "ranking", "nearest") +
                     (with_band ? "  random: loss" : "") + style.off + "\n";
  for (const PrunePoint& point : result.curve) {
    text += fmt::format("{:>8}{:>7.0f}%{:>10.4f}{:>9}{:>9}{}", point.removed,
                        100 * static_cast<double>(point.removed) / static_cast<double>(result.num_heads),
                        point.agreement.loss, number(point.agreement.ranking), number(point.agreement.nearest),
                        point.compensated ? " " : "*");
    if (with_band) text += " " + band(point, [](const lens::VectorAgreement& a) { return std::optional(a.loss); });
    text += "\n";
  }
  std::string notes =
      "loss: mean of 1 - cosine with the vectors of the whole model, on sentences that were not used to choose "
      "and fit. ranking: rank correlation of the similarities of all their pairs. nearest: share with the same "
      "nearest sentence.";
  if (std::ranges::any_of(result.curve, [](const PrunePoint& p) { return !p.compensated; })) {
    notes += " *: making up for the heads was worse than not and was left out.";
  }
  return text + "\n" + paragraph(notes, width, 0, style.dim, style.off);
}

std::string change(double before, double after, const char* unit, double scale) {
  return fmt::format("{:.2f} -> {:.2f} {} ({:+.1f} %)", before / scale, after / scale, unit,
                     100 * (after / before - 1));
}

std::string cost_lines(const PruneResult& result) {
  const auto as_double = [](index_t n) { return static_cast<double>(n); };
  const ModelSize &a = result.before, &b = result.after;
  std::string text = "Parameters: " + change(as_double(a.parameters), as_double(b.parameters), "million", 1e6) + "\n";
  if (a.file_bytes > 0 && b.file_bytes > 0) {
    text += "File: " + change(as_double(a.file_bytes), as_double(b.file_bytes), "MB", 1e6) + "\n";
  }
  text += "Arithmetic: " + change(a.flops_per_token, b.flops_per_token, "MFLOP a token", 1e6) + "\n";
  if (a.memory_bytes && b.memory_bytes && *a.memory_bytes > 0) {
    text += "Memory of a forward of 64: " + change(as_double(*a.memory_bytes), as_double(*b.memory_bytes), "MB", 1e6) +
            "\n";
  }
  for (const PruneSpeed& each : result.speed) {
    text += fmt::format("Batch of {:>2}: {:.0f} -> {:.0f} tokens/s, {:.3f}x ({:.2f} .. {:.2f})\n", each.batch,
                        each.before, each.after, each.ratio, each.low, each.high);
  }
  return text;
}

std::string role_lines(const PruneResult& result, int width) {
  std::string text;
  for (const PruneRole& role : result.roles) {
    if (role.removed.empty() && role.before == role.after) continue;
    text += fmt::format("{}{} {} -> {}", text.empty() ? "Roles, heads before and after: " : ", ", role.name,
                        role.before, role.after);
    if (role.before > 0 && role.after == 0) text += " (lost)";
  }
  return text.empty() ? "" : "\n" + paragraph(text + ".", width);
}

std::string kept_lines(const PruneResult& result, int width) {
  std::string text = "Heads that are left, by layer:";
  for (std::size_t l = 0; l < result.kept.size(); ++l) {
    text += fmt::format(" {}:", l);
    for (std::size_t n = 0; n < result.kept[l].size(); ++n)
      text += fmt::format("{}{}", n == 0 ? " " : ",", result.kept[l][n]);
    text += l + 1 < result.kept.size() ? ";" : ".";
  }
  return "\n" + paragraph(text, width);
}

}  // namespace

std::string prune_report(const PruneResult& result, const Style& style, int width) {
  return curve_table(result, style, width) + "\n" + cost_lines(result) + role_lines(result, width) +
         kept_lines(result, width);
}

}  // namespace multihead::cli
