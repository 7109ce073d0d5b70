// What the heads of a model have in common, as JSON and in the characters of a terminal.
#include <fmt/format.h>

#include <algorithm>

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
          {"removal_order", order}};
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

json head_redundancy_json(const HeadsResult& result, const lens::EncoderHead& head) {
  if (!result.redundancy) return json::object();
  const std::optional<double> r2 = replaceable(*result.redundancy, head);
  return {{"replaceable", r2 ? json(*r2) : json(nullptr)}};
}

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
  constexpr auto kNote =
      "effective heads: how many write differently. averaging loss: what would be lost if heads were averaged. R2: how "
      "much of what the head writes the others of its layer can write instead, on text that was not fitted; 1 is all.";
  return text + paragraph(kNote, columns, 0, style.dim, style.off);
}

}  // namespace multihead::cli
