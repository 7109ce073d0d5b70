// The numbers of `multihead inspect` for other programs.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "heads_json.hpp"
#include "inspect.hpp"

namespace multihead::cli {
namespace {

using json = nlohmann::ordered_json;

json tokens_json(const Inspection& inspection) {
  const Encoding& encoding = inspection.run.encoding;
  json tokens = json::array();
  for (std::size_t t = 0; t < inspection.tokens.tokens.size(); ++t) {
    const ReportToken& token = inspection.tokens.tokens[t];
    tokens.push_back({{"text", token.text},
                      {"id", encoding.ids[t]},
                      {"special", token.special},
                      {"word", token.word < 0 ? json(nullptr) : json(token.word)},
                      {"begin", encoding.offsets[t].begin},
                      {"end", encoding.offsets[t].end}});
  }
  return tokens;
}

json optional_json(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

json head_json(const Inspection& inspection, const HeadStatistics& each) {
  json links = json::array();
  for (const lens::Link& link : each.summary.links) {
    links.push_back({{"query", link.query}, {"key", link.key}, {"prob", link.prob}});
  }
  json offsets = json::array();  // null where the text is too short for any pair of that distance
  for (index_t n = 0; n < static_cast<index_t>(each.offsets.size()); ++n) {
    const bool applies = std::abs(n - kOffsetReach) < inspection.run.num_tokens();
    offsets.push_back(applies ? json(each.offsets[static_cast<std::size_t>(n)]) : json(nullptr));
  }
  return {{"layer", each.layer},
          {"head", each.number},
          {"entropy", optional_json(each.summary.entropy)},
          {"special_share", optional_json(each.summary.special_share)},
          {"distant_confidence", optional_json(each.distant_confidence)},
          {"offsets", offsets},
          {"links", links}};
}

}  // namespace

std::string inspection_json(const Inspection& inspection) {
  const ModelRun& run = inspection.run;
  json heads = json::array();
  for (std::size_t n = 0; n < inspection.heads.size(); ++n) {
    heads.push_back(head_json(inspection, inspection.heads[n]));
    if (inspection.roles) heads.back().update(roles_json(*inspection.roles, inspection.roles->heads[n]));
  }
  const auto [layer, head] = inspection.shown;
  const json result = {{"model", run.folder()},
                       {"model_type", run.encoder().config().model_type},
                       {"text", run.text},
                       {"num_tokens", run.num_tokens()},
                       {"num_tokens_uncut", run.encoding.num_tokens_uncut},
                       {"tokens", tokens_json(inspection)},
                       {"words", inspection.tokens.words},
                       {"shown", {{"layer", layer}, {"head", run.original_head(layer, head)}}},
                       {"heads", heads}};
  // Names of files need not be UTF-8: what is not becomes U+FFFD.
  return escaped_json(result.dump(1, ' ', false, json::error_handler_t::replace)) + "\n";
}

}  // namespace multihead::cli
