#include "tests/support/layer_problem.hpp"

namespace multihead::test {

std::vector<LayerCase> layer_cases() {
  const nn::RopeConfig halves{}, neighbours{.rotary_dim = 4, .pairing = nn::RopePairing::interleaved};
  std::vector<LayerCase> cases;
  cases.push_back({.name = "base", .config = {.d_model = 12, .num_heads = 3}});
  cases.push_back({.name = "widths",
                   .config = {.d_model = 8, .num_heads = 2, .k_width = 6, .v_width = 3, .y_width = 5},
                   .cross = true});
  cases.push_back({.name = "without_biases",
                   .config = {.d_model = 6, .num_heads = 2, .b_q = false, .b_k = false, .b_v = false, .b_o = false}});
  cases.push_back({.name = "grouped",
                   .config = {.d_model = 7, .num_heads = 4, .num_kv_heads = 2, .head_dim = 5, .head_dim_v = 3},
                   .cross = true,
                   .bias = true});
  cases.push_back({.name = "norm_and_rope",
                   .config = {.d_model = 12, .num_heads = 2, .q_norm = true, .k_norm = true, .rope = halves},
                   .causal = Causal::bottom_right});
  cases.push_back({.name = "partial_rope_at_positions",
                   .config = {.d_model = 12, .num_heads = 2, .k_norm = true, .rope = neighbours},
                   .cross = true,
                   .positions = true});
  cases.push_back({.name = "gates", .config = {.d_model = 9, .num_heads = 3}, .gates = true, .lengths = true});
  cases.push_back({.name = "scale_and_softcap",
                   .config = {.d_model = 8, .num_heads = 2, .scale = 1.5},
                   .causal = Causal::top_left,
                   .softcap = 2.0});
  cases.push_back({.name = "sinks", .config = {.d_model = 8, .num_heads = 2, .sinks = true}, .visible = true});
  cases.push_back({.name = "zero_attn", .config = {.d_model = 8, .num_heads = 2, .zero_attn = true}, .visible = true});
  cases.push_back({.name = "bias_kv",
                   .config = {.d_model = 8, .num_heads = 4, .num_kv_heads = 2, .bias_kv = true, .zero_attn = true},
                   .visible = true,
                   .softcap = 3.0});
  cases.push_back({.name = "unevenly_pruned",
                   .config = {.d_model = 12, .num_heads = 6, .num_kv_heads = 3, .bias_kv = true},
                   .remove = {1, 4, 5},
                   .gates = true});
  cases.push_back({.name = "packed",
                   .config = {.d_model = 8, .num_heads = 2, .rope = halves, .bias_kv = true},
                   .cross = true,
                   .gates = true,
                   .packed = true});
  cases.push_back({.name = "dropout",
                   .config = {.d_model = 8, .num_heads = 2, .dropout = 0.4, .bias_kv = true},
                   .gates = true,
                   .lengths = true});
  return cases;
}

}  // namespace multihead::test
