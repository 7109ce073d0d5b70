// Which labels a head has, and what they come to over a model.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "heads.hpp"

namespace multihead::cli {

std::string HeadsResult::name() const { return std::filesystem::path(folder).lexically_normal().filename().string(); }

std::string few_tokens_note() {
  return fmt::format("Segments of fewer than {} tokens say little about roles.", kFewestRoleTokens);
}

index_t HeadsResult::number_of(const LayerHead& head) const {
  const auto found = std::ranges::find_if(heads, [&](const lens::EncoderHead& each) {
    return LayerHead{each.layer, each.head} == head;
  });
  return found->number;
}

const lens::Relation* HeadsResult::relation_of(const lens::EncoderHead& head) const {
  const lens::Relation* best = nullptr;
  if (!relations) return best;
  const auto gain = [](const lens::Relation& each) { return each.accuracy - each.baseline; };
  for (const lens::Relation& each : *relations) {
    const bool is_its = each.passed && each.head == LayerHead{head.layer, head.head};
    if (is_its && (best == nullptr || gain(each) > gain(*best))) best = &each;
  }
  return best;
}

std::string_view direction_name(lens::Direction direction) {
  return direction == lens::Direction::to_head ? "to_head" : "to_dependent";
}

std::vector<Label> labels_of(const HeadsResult& result, const lens::EncoderHead& head) {
  std::vector<Label> labels;
  for (const lens::Role role : head.roles.labels) {
    const lens::RoleScore& score = *head.roles.score(role);
    const std::string_view name = lens::role_name(role);
    labels.push_back({.name = name,
                      .text = score.offset && role == lens::Role::offset ? fmt::format("{} {:+}", name, *score.offset)
                                                                         : std::string(name),
                      .lift = score.lift,
                      .strength = score.strength,
                      .interval = score.interval});
  }
  if (const lens::Relation* relation = result.relation_of(head)) {
    const double gain = relation->accuracy - relation->baseline;
    labels.push_back({.name = kSyntactic,
                      .text = fmt::format("{} {}", kSyntactic, relation->relation),
                      .lift = gain,
                      .strength = gain / kRelationGain,
                      .interval = relation->interval});
  }
  std::ranges::stable_sort(labels, [](const Label& a, const Label& b) { return a.strength > b.strength; });
  return labels;
}

std::string_view primary_role(const HeadsResult& result, const lens::EncoderHead& head) {
  const std::vector<Label> labels = labels_of(result, head);
  if (!labels.empty()) return labels.front().name;
  const bool judged = std::ranges::any_of(head.roles.scores, [](const auto& score) { return score.has_value(); });
  return judged ? kUnassigned : "n/a";
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

}  // namespace multihead::cli
