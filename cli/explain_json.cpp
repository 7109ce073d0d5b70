// The numbers of `multihead explain` for other programs. Arrays are nested as their shapes say.
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "explain.hpp"

namespace multihead::cli {
namespace {

using json = nlohmann::ordered_json;

/// As few digits as give the same float again.
template <int R>
void append(std::string& text, TensorView<const float, R> view) {
  text += '[';
  for (index_t i = 0; i < view.shape(0); ++i) {
    if (i > 0) text += ',';
    if constexpr (R > 1) {
      append(text, view[i]);
    } else if (std::isfinite(view(i))) {
      fmt::format_to(std::back_inserter(text), "{}", view(i));
    } else {
      text += "null";
    }
  }
  text += ']';
}

template <int R>
void write_array(OutputFile& file, const char* name, TensorView<const float, R> view) {
  std::string text = fmt::format(",\"{}\":[", name);
  for (index_t i = 0; i < view.shape(0); ++i) {
    if (i > 0) text += ',';
    append(text, view[i]);
    file.write(text);
    text.clear();
  }
  file.write(text + "]");
}

/// [1, n, H, D] as [H, n, D].
TensorView<const float, 3> by_head(const Tensor<float, 4>& activation) {
  return activation.view()[0].permute({1, 0, 2});
}

/// {"a": 1} as "a":1.
std::string members(const json& object) {
  const std::string text = escaped_json(object.dump());
  return text.substr(1, text.size() - 2);
}

}  // namespace

index_t num_json_numbers(index_t n, const nn::MultiHeadExtents& size) {
  const index_t of_heads = size.num_heads * (2 * n + size.head_dim + size.head_dim_v);
  return n * (size.d_model + of_heads + size.num_kv_heads * (size.head_dim + size.head_dim_v) + size.y_width);
}

void write_explanation_json(const Explanation& e, OutputFile& file, Executor* threads) {
  const nn::MultiHeadExtents& s = e.layer.extents();
  json checks = json::array();
  for (const Check& check : e.checks)
    checks.push_back({{"step", check.step}, {"holds", check.holds}, {"text", check.text}});
  file.write("{" + members({{"tokens", e.tokens},
                            {"d_model", s.d_model},
                            {"num_heads", s.num_heads},
                            {"head_dim", s.head_dim},
                            {"original_heads", e.layer.heads().original_heads}}));
  write_array<2>(file, "x", e.x.view()[0]);
  write_array<3>(file, "q", by_head(e.activations.q));
  write_array<3>(file, "k", by_head(e.activations.k));
  write_array<3>(file, "v", by_head(e.activations.v));
  {
    const Maps maps = maps_of(e, 0, e.num_tokens(), threads);
    write_array<3>(file, "scores", maps.scores.view());
    write_array<3>(file, "probs", maps.probs.view()[0]);
  }
  write_array<3>(file, "heads", by_head(e.activations.heads));
  write_array<2>(file, "y", e.y.view()[0]);
  file.write("," + members({{"checks", checks}}) + "}\n");
}

}  // namespace multihead::cli
