// The table of heads and their roles, in the characters of a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "heads.hpp"

namespace multihead::cli {
namespace {

std::string number(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

/// "offset -2": an offset says which one it is.
std::string role_text(const lens::HeadRoles& roles, lens::Role role) {
  const std::string name(lens::role_name(role));
  const std::optional<lens::RoleScore>& score = roles.score(role);
  return role == lens::Role::offset && score ? fmt::format("{} {:+}", name, *score->offset) : name;
}

std::string primary_text(const lens::HeadRoles& roles) {
  return roles.labels.empty() ? std::string(primary_role(roles)) : role_text(roles, roles.labels.front());
}

std::string also_text(const lens::HeadRoles& roles) {
  std::string text;
  for (std::size_t n = 1; n < roles.labels.size(); ++n) {
    const lens::Role role = roles.labels[n];
    text += fmt::format("{}{} {:.2f}", text.empty() ? "" : ", ", role_text(roles, role), roles.score(role)->lift);
  }
  return text;
}

/// The columns of the table, as many as the width has room for.
struct TableColumns {
  static constexpr int kHead = 8, kRole = 13, kLift = 7, kInterval = 14, kTokens = 9, kDistance = 10, kOutput = 8,
                       kFewestAlso = 12;
  int used = kHead + kRole;
  bool lift, tokens, interval, distance, output;
  int also;  // 0 = none

  explicit TableColumns(int width)
      : lift(add(kLift, width)),
        tokens(add(kTokens, width)),
        interval(add(kInterval, width)),
        distance(add(kDistance, width)),
        output(add(kOutput, width)),
        also(std::max(0, width - used - 2)) {
    if (also < kFewestAlso) also = 0;
  }

 private:
  bool add(int columns, int width) {
    const bool fits = used + columns <= width;
    if (fits) used += columns;
    return fits;
  }
};

std::string table_titles(const TableColumns& columns, const Style& style) {
  std::string text = fmt::format("{:<8}{:<13}", " head", "role");
  if (columns.lift) text += fmt::format("  {:>5}", "lift");
  if (columns.interval) text += fmt::format("  {:<12}", "95 %");
  if (columns.tokens) text += fmt::format("  {:>7}", "~tokens");
  if (columns.distance) text += fmt::format("  {:>8}", "distance");
  if (columns.output) text += fmt::format("  {:>6}", "output");
  if (columns.also > 0) text += "  also";
  return style.bold + text + style.off + "\n";
}

std::string interval_text(const lens::RoleScore* score) {
  if (score == nullptr || !score->interval) return "-";
  return fmt::format("{:.2f} .. {:.2f}", score->interval->low, score->interval->high);
}

std::string table_row(const lens::EncoderHead& head, const TableColumns& columns, const Style& style) {
  const lens::HeadRoles& roles = head.roles;
  const lens::RoleScore* score = roles.labels.empty() ? nullptr : &*roles.score(roles.labels.front());
  const bool is_named = score != nullptr;
  std::string text = fmt::format(" {:<7}{}{}{}", fmt::format("{}.{}", head.layer, head.number),
                                 is_named ? style.accent : style.dim, left(primary_text(roles), 13), style.off);
  if (columns.lift) text += fmt::format("  {:>5}", is_named ? fmt::format("{:.2f}", score->lift) : "-");
  if (columns.interval) text += fmt::format("  {:<12}", interval_text(score));
  if (columns.tokens) text += fmt::format("  {:>7}", number(roles.effective_keys, "{:.1f}"));
  if (columns.distance) {
    text += fmt::format("  {:>8}", roles.spread ? fmt::format("{:.1f}", roles.spread->distance) : "-");
  }
  if (columns.output) text += fmt::format("  {:>6}", number(roles.output_norm_share, "{:.2f}"));
  if (columns.also > 0) text += "  " + fitted(also_text(roles), columns.also);
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
  const auto unassigned =
      std::ranges::count_if(result.heads, [](const lens::EncoderHead& head) { return head.roles.labels.empty(); });
  std::string text = "Heads by role:";
  for (int n = 0; n < lens::kNumRoles; ++n) {
    const auto at = static_cast<std::size_t>(n);
    const std::string_view name = lens::role_name(static_cast<lens::Role>(n));
    const std::string random = result.null ? fmt::format(" ({})", (*result.null)[at].labelled) : "";
    if (ours[at].judged == 0) text += fmt::format(" {} n/a,", name);
    if (ours[at].judged > 0) text += fmt::format(" {} {}{},", name, ours[at].labelled, random);
  }
  text += fmt::format(" unassigned {}.", unassigned);
  if (result.null) text += " In brackets: the same architecture with its weights in random order.";
  return paragraph(text, width, 0, style.dim, style.off);
}

}  // namespace

std::string HeadsResult::name() const { return std::filesystem::path(folder).lexically_normal().filename().string(); }

std::string_view primary_role(const lens::HeadRoles& roles) {
  if (!roles.labels.empty()) return lens::role_name(roles.labels.front());
  const bool judged = std::ranges::any_of(roles.scores, [](const auto& score) { return score.has_value(); });
  return judged ? "unassigned" : "n/a";
}

RoleSummaries summarise_roles(const std::vector<lens::EncoderHead>& heads) {
  RoleSummaries summaries{};
  for (int n = 0; n < lens::kNumRoles; ++n) {
    RoleSummary& one = summaries[static_cast<std::size_t>(n)];
    for (const lens::EncoderHead& head : heads) {
      const std::optional<lens::RoleScore>& score = head.roles.score(static_cast<lens::Role>(n));
      if (!score) continue;
      one.most = one.judged == 0 ? score->lift : std::max(one.most, score->lift);
      one.mean += score->lift, ++one.judged;
      one.labelled += score->passed ? 1 : 0;
    }
    if (one.judged > 0) one.mean /= static_cast<double>(one.judged);
  }
  return summaries;
}

std::string roles_table(const HeadsResult& result, const Style& style, int width) {
  const TableColumns columns(width);
  std::string text = table_titles(columns, style);
  for (const lens::EncoderHead& head : result.heads) {
    if (head.head == 0 && head.layer > 0) text += "\n";
    text += table_row(head, columns, style);
  }
  const int notes = std::min(width, 110);
  return text + "\n" + counts_text(result, style, notes) +
         paragraph(table_notes(columns), notes, 0, style.dim, style.off);
}

}  // namespace multihead::cli
