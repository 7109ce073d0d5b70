// The numbers of `multihead prune` for other programs.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "prune.hpp"

namespace multihead::cli {
namespace {

using json = nlohmann::ordered_json;

json heads_json(const std::vector<LayerHead>& heads) {
  json list = json::array();
  for (const LayerHead& each : heads) list.push_back({{"layer", each.layer}, {"head", each.head}});
  return list;
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

/// Least, median and most of one number over the seeds.
template <class Get>
json band_json(const std::vector<lens::VectorAgreement>& runs, const Get& get) {
  std::vector<double> values;
  for (const lens::VectorAgreement& run : runs) {
    const std::optional<double> value = get(run);
    if (value) values.push_back(*value);
  }
  if (values.empty()) return nullptr;
  std::ranges::sort(values);
  return {{"min", values.front()}, {"median", values[values.size() / 2]}, {"max", values.back()}};
}

json point_json(const PrunePoint& point, index_t num_heads) {
  json result = {{"removed", point.removed},
                 {"share", static_cast<double>(point.removed) / static_cast<double>(num_heads)},
                 {"heads", heads_json(point.heads)},
                 {"loss", point.agreement.loss},
                 {"agreement", or_null(point.agreement.ranking)},
                 {"nearest", or_null(point.agreement.nearest)},
                 {"compensated", point.compensated},
                 {"random", nullptr}};
  if (point.random.empty()) return result;
  using Agreement = lens::VectorAgreement;
  result["random"] = {{"seeds", point.random.size()},
                      {"loss", band_json(point.random, [](const Agreement& a) { return std::optional(a.loss); })},
                      {"agreement", band_json(point.random, [](const Agreement& a) { return a.ranking; })},
                      {"nearest", band_json(point.random, [](const Agreement& a) { return a.nearest; })}};
  return result;
}

json size_json(const ModelSize& size) {
  return {{"parameters", size.parameters},
          {"file_bytes", size.file_bytes > 0 ? json(size.file_bytes) : json(nullptr)},
          {"flops_per_token", size.flops_per_token},
          {"memory_bytes", or_null(size.memory_bytes)}};
}

}  // namespace

std::string prune_json(const PruneResult& result) {
  json document = {{"model", result.folder},
                   {"output", result.output.empty() ? json(nullptr) : json(result.output)},
                   {"method", kMethods[static_cast<std::size_t>(result.method)]},
                   {"select", kSelections[static_cast<std::size_t>(result.selection)]},
                   {"storage", kStorages[static_cast<std::size_t>(result.storage)]},
                   {"num_heads", result.num_heads},
                   {"text",
                    {{"calibration_sentences", result.calibration_sentences},
                     {"calibration_tokens", result.calibration_tokens},
                     {"held_out_sentences", result.sentences}}},
                   {"curve", json::array()},
                   {"kept", result.kept},
                   {"before", size_json(result.before)},
                   {"after", size_json(result.after)},
                   {"speed", json::array()},
                   {"roles", json::object()},
                   {"seconds", result.seconds}};
  for (const PrunePoint& point : result.curve) document["curve"].push_back(point_json(point, result.num_heads));
  for (const PruneSpeed& each : result.speed) {
    document["speed"].push_back({{"batch", each.batch},
                                 {"before", each.before},
                                 {"after", each.after},
                                 {"ratio", each.ratio},
                                 {"ratio_range", {each.low, each.high}}});
  }
  for (const PruneRole& role : result.roles) {
    document["roles"][role.name] = {
        {"before", role.before}, {"after", role.after}, {"removed", heads_json(role.removed)}};
  }
  return escaped_json(document.dump(1, ' ', false, json::error_handler_t::replace)) + "\n";
}

}  // namespace multihead::cli
