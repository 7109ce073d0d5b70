// The table of heads and their roles, in the characters of a terminal.
#include <fmt/format.h>

#include <algorithm>

#include "heads.hpp"

namespace multihead::cli {
namespace {

constexpr int kRoleColumns = 17;  // "syntactic advmod"

std::string number(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

std::string also_text(const std::vector<Label>& labels) {
  std::string text;
  for (std::size_t n = 1; n < labels.size(); ++n) {
    text += fmt::format("{}{} {:.2f}", text.empty() ? "" : ", ", labels[n].text, labels[n].lift);
  }
  return text;
}

/// The columns of the table, as many as the width has room for.
struct TableColumns {
  static constexpr int kHead = 8, kRole = kRoleColumns, kLift = 7, kInterval = 14, kTokens = 9, kDistance = 10,
                       kOutput = 8, kFewestAlso = 12;
  TableWidth row;
  bool lift, tokens, interval, distance, output;
  int also;  // 0 = none

  TableColumns(int width, bool has_intervals)
      : row{width, kHead + kRole},
        lift(row.take(kLift)),
        tokens(row.take(kTokens)),
        interval(has_intervals && row.take(kInterval)),
        distance(row.take(kDistance)),
        output(row.take(kOutput)),
        also(row.width - row.used - 2) {
    if (also < kFewestAlso) also = 0;
  }
};

std::string table_titles(const TableColumns& columns, const Style& style) {
  std::string text = fmt::format("{:<8}{:<17}", " head", "role");
  if (columns.lift) text += fmt::format("  {:>5}", "lift");
  if (columns.interval) text += fmt::format("  {:<12}", "95 %");
  if (columns.tokens) text += fmt::format("  {:>7}", "~tokens");
  if (columns.distance) text += fmt::format("  {:>8}", "distance");
  if (columns.output) text += fmt::format("  {:>6}", "output");
  if (columns.also > 0) text += "  also";
  return style.bold + text + style.off + "\n";
}

std::string interval_text(const std::optional<lens::Interval>& interval) {
  return interval ? fmt::format("{:.2f} .. {:.2f}", interval->low, interval->high) : "-";
}

std::string table_row(const HeadsResult& result, const lens::EncoderHead& head, const TableColumns& columns,
                      const Style& style) {
  const lens::HeadRoles& roles = head.roles;
  const std::vector<Label> labels = labels_of(result, head);
  const bool is_named = !labels.empty();
  const std::string primary = is_named ? labels.front().text : std::string(primary_role(result, head));
  std::string text = fmt::format(" {:<7}{}{}{}", fmt::format("{}.{}", head.layer, head.number),
                                 is_named ? style.accent : style.dim, left(primary, kRoleColumns), style.off);
  if (columns.lift) text += fmt::format("  {:>5}", is_named ? fmt::format("{:.2f}", labels.front().lift) : "-");
  if (columns.interval) text += fmt::format("  {:<12}", is_named ? interval_text(labels.front().interval) : "-");
  if (columns.tokens) text += fmt::format("  {:>7}", number(roles.effective_keys, "{:.1f}"));
  if (columns.distance) {
    text += fmt::format("  {:>8}", roles.spread ? fmt::format("{:.1f}", roles.spread->distance) : "-");
  }
  if (columns.output) text += fmt::format("  {:>6}", number(roles.output_norm_share, "{:.2f}"));
  if (columns.also > 0) text += "  " + fitted(also_text(labels), columns.also);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string table_notes(const TableColumns& columns) {
  std::string text =
      "head: layer.head, from 0. role: the strongest of those that pass their threshold; unassigned: none does.";
  if (columns.lift) text += " lift: 0 by chance, 1 at most; broad: the entropy, 1 when even.";
  if (columns.tokens) text += " ~tokens: exp(entropy).";
  if (columns.distance) text += " distance: mean, in tokens.";
  if (columns.output) text += " output: what the head writes, relative to its layer's mean.";
  return text;
}

/// "previous 3 (random 0)   first 12 (random 0)   ..": heads by label, and how many a model of shuffled weights has.
std::string counts_text(const HeadsResult& result, const Style& style, int width) {
  const RoleSummaries ours = summarise_roles(result.heads);
  const auto unassigned = std::ranges::count_if(
      result.heads, [&](const lens::EncoderHead& head) { return primary_role(result, head) == kUnassigned; });
  std::string text = "Heads by role:";
  for (int n = 0; n < lens::kNumRoles; ++n) {
    const auto at = static_cast<std::size_t>(n);
    const std::string_view name = lens::role_name(static_cast<lens::Role>(n));
    const std::string random = result.null ? fmt::format(" ({})", (*result.null)[at].labelled) : "";
    if (ours[at].judged == 0) text += fmt::format(" {} n/a,", name);
    if (ours[at].judged > 0) text += fmt::format(" {} {}{},", name, ours[at].labelled, random);
  }
  if (result.relations) {
    const auto follow = [&](const lens::EncoderHead& head) { return result.relation_of(head) != nullptr; };
    text += fmt::format(" {} {},", kSyntactic, std::ranges::count_if(result.heads, follow));
  }
  text += fmt::format(" unassigned {}.", unassigned);
  if (result.null) text += " In brackets: the same architecture with its weights in random order.";
  return paragraph(text, width, 0, style.dim, style.off);
}

}  // namespace

std::string roles_table(const HeadsResult& result, const Style& style, int width) {
  const TableColumns columns(width, result.corpus.segments.size() > 1);
  std::string text = table_titles(columns, style);
  for (const lens::EncoderHead& head : result.heads) {
    if (head.head == 0 && head.layer > 0) text += "\n";
    text += table_row(result, head, columns, style);
  }
  const int notes = std::min(width, 110);
  return text + "\n" + counts_text(result, style, notes) +
         paragraph(table_notes(columns), notes, 0, style.dim, style.off);
}

std::string relations_table(const HeadsResult& result, const Style& style, int width) {
  constexpr index_t kFewestInstances = 100;
  std::string text = style.bold +
                     fmt::format(" {:<12}{:<14}{:<8}{:>8}  {:>8}  {:<9}{}", "relation", "direction", "head", "accuracy",
                                 "baseline", "(offset)", "gain, 95 %") +
                     style.off + "\n";
  index_t left_out = 0;
  for (const lens::Relation& each : *result.relations) {
    if (each.instances < kFewestInstances) {
      ++left_out;
      continue;
    }
    const std::string head = fmt::format("{}.{}", each.head.layer, result.number_of(each.head));
    text += fmt::format(" {}{}{}{:<14}{:<8}{:>8.1f}  {:>8.1f}  {:<9}{}\n", each.passed ? style.accent : style.dim,
                        left(each.relation, 12), style.off, direction_name(each.direction), head, 100 * each.accuracy,
                        100 * each.baseline, fmt::format("({:+})", each.baseline_offset),
                        each.interval ? fmt::format("{}{:.1f} .. {:.1f}", each.passed ? "* " : "  ",
                                                    100 * each.interval->low, 100 * each.interval->high)
                                      : "");
  }
  const std::string note = fmt::format(
      "The head is the best on half of the sentences; accuracies, in %, are of the other half. baseline: always the "
      "word at the "
      "best fixed offset. *: at least 10 points above it, interval above 0. {} relations with fewer than {} instances "
      "are left "
      "out.",
      left_out, kFewestInstances);
  return text + "\n" + paragraph(note, std::min(width, 110), 0, style.dim, style.off);
}

}  // namespace multihead::cli
