// The numbers of `multihead inspect` for other programs.
#include <nlohmann/json.hpp>

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

json head_json(const Inspection& inspection, const HeadStatistics& each, bool with_probs) {
  json links = json::array();
  for (const lens::Link& link : each.summary.links) {
    links.push_back({{"query", link.query}, {"key", link.key}, {"prob", link.prob}});
  }
  json head = {{"layer", each.layer},
               {"head", each.number},
               {"entropy", optional_json(each.summary.entropy)},
               {"special_share", optional_json(each.summary.special_share)},
               {"distant_confidence", optional_json(each.distant_confidence)},
               {"offsets", each.offsets},
               {"links", links}};
  if (with_probs) {
    const lens::HeadMap probs = map_of(inspection.run, each.layer, each.head);
    json rows = json::array();
    for (index_t i = 0; i < probs.shape(0); ++i) {
      json row = json::array();
      for (index_t j = 0; j < probs.shape(1); ++j) row.push_back(probs(i, j));
      rows.push_back(std::move(row));
    }
    head["probs"] = std::move(rows);
  }
  return head;
}

}  // namespace

std::string inspection_json(const Inspection& inspection, bool with_probs) {
  const ModelRun& run = inspection.run;
  json heads = json::array();
  for (const HeadStatistics& each : inspection.heads) heads.push_back(head_json(inspection, each, with_probs));
  const auto [layer, head] = inspection.shown;
  const json result = {{"model", run.folder},
                       {"model_type", run.encoder.config().model_type},
                       {"text", run.text},
                       {"num_tokens", run.num_tokens()},
                       {"num_tokens_uncut", run.encoding.num_tokens_uncut},
                       {"tokens", tokens_json(inspection)},
                       {"words", inspection.tokens.words},
                       {"shown", {{"layer", layer}, {"head", run.designed_head(layer, head)}}},
                       {"heads", heads}};
  return result.dump(1) + "\n";
}

}  // namespace multihead::cli
