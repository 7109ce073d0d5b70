// The numbers of `multihead heads` for other programs.
#include "heads_json.hpp"

#include <algorithm>
#include <cmath>

namespace multihead::cli {
namespace {

using json = nlohmann::ordered_json;

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json interval_json(const std::optional<lens::Interval>& interval) {
  return interval ? json::array({interval->low, interval->high}) : json(nullptr);
}

/// Numbers that only some roles have are left out where they do not apply.
json score_json(const lens::RoleScore& score) {
  json result = {{"lift", score.lift},
                 {"hit", or_null(score.hit)},
                 {"eligible", score.eligible},
                 {"interval", interval_json(score.interval)},
                 {"threshold", score.threshold},
                 {"passed", score.passed},
                 {"mass", score.mass},
                 {"chance", score.chance},
                 {"active", nullptr}};
  if (score.active) {
    result["active"] = {
        {"lift", score.active->lift}, {"hit", score.active->hit}, {"queries_left", score.active->queries_left}};
  }
  const auto add = [&](const char* name, const auto& value) {
    if (value) result[name] = *value;
  };
  add("offset", score.offset), add("share_nearby", score.share_nearby);
  add("positional", score.positional), add("majority", score.majority);
  add("value_share", score.value_share), add("sink_rate", score.sink_rate);
  add("second_hit", score.second_hit), add("mass_per_entry", score.mass_per_entry);
  add("lift_on_text", score.lift_on_text), add("share_of_all", score.share_of_all);
  return result;
}

json spread_json(const std::optional<lens::RoleSums::Spread>& spread) {
  if (!spread) return nullptr;
  return {{"confidence", spread->confidence},
          {"distance", spread->distance},
          {"entropy", spread->entropy},
          {"effective_keys", std::exp(spread->entropy)}};
}

json depends_on(const std::optional<double>& variability) {
  if (!variability) return nullptr;
  return *variability <= kPositionMost ? "position" : *variability >= kContentLeast ? "content" : "both";
}

json statistics_json(const lens::EncoderHead& head) {
  const lens::HeadRoles& roles = head.roles;
  json result = spread_json(roles.spread);
  if (result.is_null()) result = json::object();
  if (roles.spread) result["normalised_entropy"] = roles.spread->normalised_entropy;
  result["output_norm"] = or_null(roles.output_norm);
  result["output_norm_share"] = or_null(roles.output_norm_share);
  result["variability"] = or_null(head.variability);
  result["depends_on"] = depends_on(head.variability);
  result["value_weighted"] = spread_json(roles.value_spread);
  return result;
}

json relation_json(const HeadsResult& result, const lens::Relation& each) {
  return {{"relation", each.relation},
          {"direction", direction_name(each.direction)},
          {"layer", each.head.layer},
          {"head", result.number_of(each.head)},
          {"accuracy", each.accuracy},
          {"baseline", each.baseline},
          {"baseline_offset", each.baseline_offset},
          {"instances", each.instances},
          {"interval", interval_json(each.interval)},
          {"passed", each.passed}};
}

/// As a score: what a head gains on the relation that it follows best.
json syntactic_json(const lens::Relation* relation) {
  if (relation == nullptr) return nullptr;
  return {{"lift", relation->accuracy - relation->baseline},
          {"hit", relation->accuracy},
          {"eligible", relation->instances},
          {"interval", interval_json(relation->interval)},
          {"threshold", kRelationGain},
          {"passed", relation->passed},
          {"relation", relation->relation},
          {"direction", direction_name(relation->direction)}};
}

}  // namespace

json roles_json(const HeadsResult& result, const lens::EncoderHead& head) {
  json roles = json::object(), labels = json::array();
  for (int n = 0; n < lens::kNumRoles; ++n) {
    const auto role = static_cast<lens::Role>(n);
    const std::optional<lens::RoleScore>& score = head.roles.score(role);
    roles[std::string(lens::role_name(role))] = score ? score_json(*score) : json(nullptr);
  }
  if (result.relations) roles[std::string(kSyntactic)] = syntactic_json(result.relation_of(head));
  for (const Label& label : labels_of(result, head)) labels.push_back(label.name);
  return {{"role", primary_role(result, head)},
          {"labels", labels},
          {"roles", roles},
          {"statistics", statistics_json(head)}};
}

namespace {

json head_json(const HeadsResult& result, const lens::EncoderHead& head) {
  json document = {{"layer", head.layer}, {"head", head.number}};
  document.update(roles_json(result, head));
  document.update(head_redundancy_json(result, head));
  document.update(head_importance_json(result, head));
  return document;
}

json summaries_json(const RoleSummaries& summaries) {
  json result = json::object();
  for (int n = 0; n < lens::kNumRoles; ++n) {
    const RoleSummary& one = summaries[static_cast<std::size_t>(n)];
    json& place = result[std::string(lens::role_name(static_cast<lens::Role>(n)))];
    if (one.judged > 0) place = {{"heads", one.labelled}, {"mean_lift", one.mean}, {"largest_lift", one.most}};
  }
  return result;
}

}  // namespace

std::string heads_json(const HeadsResult& result) {
  json heads = json::array();
  for (const lens::EncoderHead& head : result.heads) heads.push_back(head_json(result, head));
  const lens::Corpus& corpus = result.corpus;
  index_t longest = 0;
  for (const lens::Segment& segment : corpus.segments) longest = std::max(longest, segment.num_tokens());
  json relations = result.relations ? json::array() : json(nullptr);
  if (result.relations) {
    for (const lens::Relation& each : *result.relations) relations.push_back(relation_json(result, each));
  }
  const json document = {{"model", result.folder},
                         {"num_layers", result.num_layers},
                         {"text",
                          {{"segments", corpus.segments.size()},
                           {"segments_in_text", corpus.num_pieces},
                           {"tokens_per_segment", longest},
                           {"tokens", corpus.frequencies.num_tokens},
                           {"distinct_tokens", corpus.frequencies.num_distinct}}},
                         {"repeated", {{"sequences", result.repeated.size()}}},
                         {"roles", summaries_json(summarise_roles(result.heads))},
                         {"null", result.null ? summaries_json(*result.null) : json(nullptr)},
                         {"heads", heads},
                         {"layers", layers_json(result)},
                         {"similarity", similarity_json(result)},
                         {"agreement", agreement_json(result)},
                         {"ablation_segments", result.importance ? json(result.importance->num_segments) : json()},
                         {"relations", relations},
                         {"seconds", result.seconds}};
  // Names of files need not be UTF-8: what is not becomes U+FFFD.
  return escaped_json(document.dump(1, ' ', false, json::error_handler_t::replace)) + "\n";
}

}  // namespace multihead::cli
