// What the heads of a model have in common, as JSON and in the characters of a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heads_json.hpp"

namespace multihead::cli {
namespace {

using json = nlohmann::ordered_json;

/// Of a head given all others of its layer.
std::optional<double> replaceable(const lens::Redundancy& redundancy, const lens::EncoderHead& head) {
  const auto& layer = redundancy.layers[static_cast<std::size_t>(head.layer)];
  if (!layer.replaceable) return std::nullopt;
  return layer.replaceable->r2[static_cast<std::size_t>(head.head)];
}

constexpr index_t kNearest = 3;

/// 1 - sqrt(J)
double looks_alike(const lens::Redundancy& redundancy, index_t i, index_t j) {
  return 1 - std::sqrt(redundancy.map_distance(i, j));
}

/// Six digits; null for what was not compared.
json rounded(double value) { return std::isnan(value) ? json(nullptr) : json(std::round(value * 1e6) / 1e6); }

json name_json(const lens::EncoderHead& head) { return {{"layer", head.layer}, {"head", head.number}}; }

std::string name_text(const lens::EncoderHead& head) { return fmt::format("{}.{}", head.layer, head.number); }

json pair_json(const lens::Redundancy& redundancy, index_t i, index_t j) {
  return {{"looks_alike", rounded(looks_alike(redundancy, i, j))},
          {"writes_alike", rounded(redundancy.writes.cka(i, j))},
          {"cosine", rounded(redundancy.writes.cosine(i, j))}};
}

template <class Value>
json matrix_json(index_t count, const Value& value) {
  json rows = json::array();
  for (index_t i = 0; i < count; ++i) {
    json& row = rows.emplace_back(json::array());
    for (index_t j = 0; j < count; ++j) row.push_back(rounded(value(i, j)));
  }
  return rows;
}

struct Pair {
  index_t first, second;
  double cka;
};

/// All pairs of heads that were compared, those that write most alike first.
std::vector<Pair> pairs_by_writes(const lens::Redundancy& redundancy) {
  std::vector<Pair> pairs;
  const Tensor<double, 2>& cka = redundancy.writes.cka;
  for (index_t i = 0; i < cka.shape(0); ++i) {
    for (index_t j = i + 1; j < cka.shape(0); ++j) {
      if (!std::isnan(cka(i, j))) pairs.push_back({i, j, cka(i, j)});
    }
  }
  std::ranges::stable_sort(pairs, std::ranges::greater(), &Pair::cka);
  return pairs;
}

/// Means over all pairs, and the two that are most alike.
json summary_json(const lens::Redundancy& redundancy) {
  const std::vector<Pair> pairs = pairs_by_writes(redundancy);
  if (pairs.empty()) return nullptr;
  double looks = 0, most_looks = 0, writes = 0, looks_pairs = 0;
  const index_t count = redundancy.map_distance.shape(0);
  for (index_t i = 0; i < count; ++i) {
    for (index_t j = i + 1; j < count; ++j) {
      const double alike = looks_alike(redundancy, i, j);
      looks += alike, most_looks = std::max(most_looks, alike), ++looks_pairs;
    }
  }
  for (const Pair& pair : pairs) writes += pair.cka / static_cast<double>(pairs.size());
  return {{"looks_alike", {{"mean", rounded(looks / looks_pairs)}, {"largest", rounded(most_looks)}}},
          {"writes_alike", {{"mean", rounded(writes)}, {"largest", rounded(pairs.front().cka)}}}};
}

json near_duplicates_json(const HeadsResult& result) {
  json found = json::array();
  for (const Pair& pair : pairs_by_writes(*result.redundancy)) {
    if (pair.cka < lens::kNearDuplicate) break;
    json each = {{"heads",
                  {name_json(result.heads[static_cast<std::size_t>(pair.first)]),
                   name_json(result.heads[static_cast<std::size_t>(pair.second)])}}};
    each.update(pair_json(*result.redundancy, pair.first, pair.second));
    found.push_back(each);
  }
  return found;
}

/// "3.4 and 3.5 (0.97)"
std::string pair_text(const HeadsResult& result, const Pair& pair) {
  return fmt::format("{} and {} ({:.2f})", name_text(result.heads[static_cast<std::size_t>(pair.first)]),
                     name_text(result.heads[static_cast<std::size_t>(pair.second)]), pair.cka);
}

std::string near_duplicates_text(const HeadsResult& result) {
  constexpr std::size_t kMost = 10;
  const std::vector<Pair> pairs = pairs_by_writes(*result.redundancy);
  if (pairs.empty()) return "";
  const auto is_near = [](const Pair& pair) { return pair.cka >= lens::kNearDuplicate; };
  const auto near = static_cast<std::size_t>(std::ranges::count_if(pairs, is_near));
  if (near == 0) return "No two heads are near-duplicates; the most alike: " + pair_text(result, pairs.front()) + ".";
  std::string text = fmt::format("Near-duplicates: {} of {} pairs:", near, pairs.size());
  for (std::size_t n = 0; n < std::min(near, kMost); ++n) text += (n == 0 ? " " : ", ") + pair_text(result, pairs[n]);
  return text + (near > kMost ? ", ..." : ".");
}

json layer_json(const HeadsResult& result, index_t index) {
  const lens::LayerRedundancy& layer = result.redundancy->layers[static_cast<std::size_t>(index)];
  json order = layer.replaceable ? json::array() : json(nullptr);
  if (layer.replaceable) {
    for (const lens::RemovalStep& step : layer.replaceable->order) {
      order.push_back({{"head", result.number_of({index, step.head})}, {"r2", step.r2}});
    }
  }
  return {{"layer", index},
          {"num_heads", layer.num_heads},
          {"effective_heads", layer.effective_heads},
          {"averaging_loss", layer.averaging_loss ? json(*layer.averaging_loss) : json(nullptr)},
          {"removal_order", order},
          {"fit_tokens", layer.fit_tokens},
          {"fit_inputs", layer.fit_inputs}};
}

}  // namespace

json layers_json(const HeadsResult& result) {
  if (!result.redundancy) return nullptr;
  json layers = json::array();
  for (std::size_t n = 0; n < result.redundancy->layers.size(); ++n) {
    layers.push_back(layer_json(result, static_cast<index_t>(n)));
  }
  return layers;
}

json similarity_json(const HeadsResult& result) {
  if (!result.redundancy) return nullptr;
  const lens::Redundancy& found = *result.redundancy;
  const index_t count = found.map_distance.shape(0);
  json halves = nullptr;
  if (found.halves) {
    halves = {{"map_distance", found.halves->map_distance}, {"writes_alike", found.halves->cka}};
  }
  return {{"looks_alike", matrix_json(count, [&](index_t i, index_t j) { return looks_alike(found, i, j); })},
          {"writes_alike", matrix_json(count, [&](index_t i, index_t j) { return found.writes.cka(i, j); })},
          {"cosine", matrix_json(count, [&](index_t i, index_t j) { return found.writes.cosine(i, j); })},
          {"near_duplicates", near_duplicates_json(result)},
          {"queries", found.num_queries},
          {"half_difference", halves},
          {"position_share", found.plane.share},
          {"summary", summary_json(found)},
          {"null", result.null_redundancy ? summary_json(*result.null_redundancy) : json(nullptr)}};
}

json head_redundancy_json(const HeadsResult& result, const lens::EncoderHead& head) {
  if (!result.redundancy) return json::object();
  const lens::Redundancy& found = *result.redundancy;
  const index_t index = &head - result.heads.data();
  json nearest = json::array();
  for (const index_t other : found.nearest(index, kNearest)) {
    json each = name_json(result.heads[static_cast<std::size_t>(other)]);
    each.update(pair_json(found, index, other));
    nearest.push_back(each);
  }
  const std::optional<double> r2 = replaceable(found, head);
  return {{"cluster", found.cluster[static_cast<std::size_t>(index)]},
          {"nearest", nearest},
          {"replaceable", r2 ? json(*r2) : json(nullptr)},
          {"position", {rounded(found.plane.positions(index, 0)), rounded(found.plane.positions(index, 1))}}};
}

namespace {

/// Noise alone costs R2 about inputs / tokens: with fewer tokens an input the user is told.
constexpr index_t kFewestTokensPerInput = 10;

std::string few_fit_tokens_text(const lens::Redundancy& redundancy) {
  for (const lens::LayerRedundancy& layer : redundancy.layers) {
    if (!layer.replaceable || layer.fit_tokens / kFewestTokensPerInput >= layer.fit_inputs) continue;
    return fmt::format("R2 is too low: it was fitted on {} tokens with {} inputs each; give more text or --segments.",
                       layer.fit_tokens, layer.fit_inputs);
  }
  return "";
}

}  // namespace

std::string redundancy_text(const HeadsResult& result, const Style& style, int width) {
  const int columns = std::min(width, 110);
  std::string text;
  for (std::size_t n = 0; n < result.redundancy->layers.size(); ++n) {
    const lens::LayerRedundancy& layer = result.redundancy->layers[n];
    if (layer.num_heads == 0) continue;
    std::string line = fmt::format("layer {}: effective heads {:.1f} of {}", n, layer.effective_heads, layer.num_heads);
    if (layer.averaging_loss) line += fmt::format(", averaging loss {:.2f}", *layer.averaging_loss);
    if (layer.replaceable && layer.num_heads > 1) {
      const lens::RemovalStep& first = layer.replaceable->order.front();
      line += fmt::format(", first to replace {}.{} (R2 {:.2f})", n,
                          result.number_of({static_cast<index_t>(n), first.head}), first.r2);
    }
    text += paragraph(line, columns);
  }
  if (const std::string pairs = near_duplicates_text(result); !pairs.empty()) text += paragraph(pairs, columns);
  if (const std::string few = few_fit_tokens_text(*result.redundancy); !few.empty()) text += paragraph(few, columns);
  constexpr auto kNote =
      "effective heads: how many write differently. averaging loss: what would be lost if heads were averaged. R2: how "
      "much of what the head writes the others of its layer can write instead, on text that was not fitted; 1 is all. "
      "Near-duplicates write alike (CKA) by 0.95 or more.";
  return text + paragraph(kNote, columns, 0, style.dim, style.off);
}

}  // namespace multihead::cli
