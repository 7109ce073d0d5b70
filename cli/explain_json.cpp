// The numbers of `multihead explain` for other programs. Arrays are nested as their shapes say.
#include <nlohmann/json.hpp>

#include "explain.hpp"

namespace multihead::cli {
namespace {

using json = nlohmann::ordered_json;

template <int R>
json array_json(TensorView<const float, R> view) {
  json array = json::array();
  for (index_t i = 0; i < view.shape(0); ++i) {
    if constexpr (R == 1) {
      array.push_back(view(i));
    } else {
      array.push_back(array_json(view[i]));
    }
  }
  return array;
}

/// [1, n, H, D] as [H, n, D].
json heads_json(const Tensor<float, 4>& activation) { return array_json(activation.view()[0].permute({1, 0, 2})); }

}  // namespace

std::string explanation_json(const Explanation& e) {
  const nn::MultiHeadExtents& s = e.layer.extents();
  json checks = json::array();
  for (const Check& check : e.checks)
    checks.push_back({{"step", check.step}, {"holds", check.holds}, {"text", check.text}});
  const json result = {{"tokens", e.tokens},
                       {"d_model", s.d_model},
                       {"num_heads", s.num_heads},
                       {"head_dim", s.head_dim},
                       {"x", array_json(e.x.view()[0])},
                       {"q", heads_json(e.activations.q)},
                       {"k", heads_json(e.activations.k)},
                       {"v", heads_json(e.activations.v)},
                       {"scores", array_json(e.scores.view())},
                       {"probs", array_json(e.probs.view()[0])},
                       {"heads", heads_json(e.activations.heads)},
                       {"y", array_json(e.y.view()[0])},
                       {"checks", checks}};
  return result.dump() + "\n";
}

}  // namespace multihead::cli
