// The atlas is the JSON of `multihead heads` and a script that shows it.
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/require.hpp"
#include "multihead/atlas_report.hpp"
#include "multihead/error.hpp"
#include "report/assets.hpp"
#include "report/escape.hpp"
#include "report/fill.hpp"

namespace multihead {
namespace {

using nlohmann::json;

constexpr auto kFunction = "atlas_page";
constexpr int kDeepest = 64;              ///< levels of the JSON; `multihead heads` writes 6
constexpr index_t kLargestNumber = 9999;  ///< of a layer or head

json parsed(std::string_view text) {
  const auto callback = [](int depth, json::parse_event_t, json&) {
    require<CheckpointError>(depth <= kDeepest, kFunction, "levels of the JSON must be few",
                             {{"depth", depth}, {"most", kDeepest}});
    return true;
  };
  try {
    return json::parse(text, callback);
  } catch (const json::parse_error& error) {
    throw CheckpointError(error_text(kFunction, "heads_json must be JSON", {{"byte", std::size_t{error.byte}}}));
  }
}

index_t number_at(const json& head, const char* name, std::size_t n) {
  const auto found = head.is_object() ? head.find(name) : head.end();
  const bool whole = found != head.end() && found->is_number_unsigned() && *found <= kLargestNumber;
  require<CheckpointError>(whole, kFunction, Rule(name, " of a head must be a whole number below 10000"),
                           {{"entry", n}});
  return found->get<index_t>();
}

void check_heads(const json& document) {
  const auto heads = document.is_object() ? document.find("heads") : document.end();
  require<CheckpointError>(heads != document.end() && heads->is_array() && !heads->empty(), kFunction,
                           "heads_json must have a list of heads", {}, "write it by multihead heads --json");
  std::set<std::pair<index_t, index_t>> seen;
  for (std::size_t n = 0; n < heads->size(); ++n) {
    const index_t layer = number_at((*heads)[n], "layer", n), number = number_at((*heads)[n], "head", n);
    require<CheckpointError>(seen.insert({layer, number}).second, kFunction, "a head must be listed once",
                             {{"layer", layer}, {"head", number}});
  }
}

/// Matrices of all pairs are most of the file; four decimals are more than a colour shows.
void round_entries(json& value) {
  if (value.is_array()) {
    for (json& each : value) round_entries(each);
  } else if (value.is_number_float()) {
    value = std::round(value.get<double>() * 1e4) / 1e4;
  }
}

void round_similarity(json& document) {
  const auto similarity = document.find("similarity");
  if (similarity == document.end() || !similarity->is_object()) return;
  for (const char* name : {"looks_alike", "writes_alike", "cosine"}) {
    if (const auto rows = similarity->find(name); rows != similarity->end()) round_entries(*rows);
  }
}

}  // namespace

std::string atlas_page(const std::string& title, std::string_view heads_json) {
  json document = parsed(heads_json);
  check_heads(document);
  round_similarity(document);
  document["title"] = title;
  return fill(assets::kAtlasTemplate, {{"title", escape_html(title)},
                                       {"style", assets::kStyle},
                                       {"atlas_style", assets::kAtlasStyle},
                                       {"data", json_for_script(document)},
                                       {"script", assets::kAtlasScript}});
}

}  // namespace multihead
