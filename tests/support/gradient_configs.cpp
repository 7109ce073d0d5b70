#include "tests/support/gradient_configs.hpp"

namespace multihead::test {

std::vector<NamedConfig> gradient_configs() {
  const AttentionConfig plain{
      .seqlen_q = 4, .seqlen_kv = 5, .num_heads = 2, .head_dim = 3, .head_dim_v = 2, .dlse = true};
  std::vector<NamedConfig> all{{"plain", plain}};
  const auto with = [&](const char* name, auto change) {
    NamedConfig named{name, plain};
    change(named.config);
    all.push_back(named);
  };
  with("without_dlse", [](auto& c) { c.dlse = false; });
  with("negative_scale", [](auto& c) { c.scale = Scale::negative; });
  with("zero_scale", [](auto& c) { c.scale = Scale::zero; });
  with("softcap", [](auto& c) { c.softcap = 0.7; });
  with("bias_full", [](auto& c) { c.bias = Bias::full; });
  with("bias_rank2", [](auto& c) { c.bias = Bias::rank2; });
  with("bias_per_head", [](auto& c) { c.bias = Bias::per_head; });
  with("bias_per_query", [](auto& c) { c.bias = Bias::per_query; });
  with("bias_per_key", [](auto& c) { c.bias = Bias::per_key; });
  with("bias_infinite", [](auto& c) { c.bias = Bias::with_infinite; });
  with("alibi", [](auto& c) { c.alibi = true; });
  with("causal_top_left", [](auto& c) { c.causal = Causal::top_left; });
  with("causal_bottom_right", [](auto& c) { c.causal = Causal::bottom_right; });
  with("causal_at_offset", [](auto& c) { c.causal = Causal::at_offset; });
  with("window", [](auto& c) { c.window_left = 1, c.window_right = 0; });
  with("visible", [](auto& c) { c.visible = Visible::full; });
  with("lengths", [](auto& c) { c.lengths = Lengths::q_and_kv; });
  with("sinks", [](auto& c) { c.sinks = Sinks::some_infinite; });
  with("dropout", [](auto& c) { c.dropout = 0.4; });
  with("kv_one", [](auto& c) { c.kv_heads = KvHeads::one; });
  with("kv_mapped", [](auto& c) { c.num_heads = 3, c.kv_heads = KvHeads::mapped; });
  with("packed", [](auto& c) { c.arrangement = Arrangement::packed; });

  const auto everything = [](AttentionConfig& c) {
    c.scale = Scale::negative;
    c.softcap = 1.5;
    c.alibi = true;
    c.causal = Causal::bottom_right;
    c.window_left = 3;
    c.visible = Visible::full;
    c.lengths = Lengths::q_and_kv;
    c.sinks = Sinks::given;
    c.dropout = 0.3;
    c.num_heads = 4;
    c.kv_heads = KvHeads::grouped;
    c.seqlen_kv = 7;
  };
  for (const Bias bias :
       {Bias::full, Bias::rank2, Bias::per_head, Bias::per_query, Bias::per_key, Bias::with_infinite}) {
    with(("everything_bias" + std::to_string(static_cast<int>(bias))).c_str(),
         [&](auto& c) { everything(c), c.bias = bias; });
  }
  with("everything_packed", [&](auto& c) {
    everything(c);
    c.bias = Bias::full;
    c.arrangement = Arrangement::packed;
  });
  return all;
}

}  // namespace multihead::test
