#include "tests/support/bitwise_configs.hpp"

namespace multihead::test {

std::vector<NamedConfig> bitwise_configs() {
  std::vector<NamedConfig> all;
  const auto add = [&](const std::string& name, AttentionConfig config) { all.push_back({name, config}); };
  const AttentionConfig base{
      .batch = 3, .seqlen_q = 55, .seqlen_kv = 161, .num_heads = 4, .head_dim = 20, .head_dim_v = 9};

  AttentionConfig plain = base;
  add("plain", plain);

  AttentionConfig padded = base;
  padded.lengths = Lengths::q_and_kv;
  padded.causal = Causal::bottom_right;
  padded.window_left = 70;
  padded.bias = Bias::full;
  padded.alibi = true;
  padded.sinks = Sinks::some_infinite;
  padded.dropout = 0.2;
  padded.kv_heads = KvHeads::grouped;
  padded.dlse = true;
  padded.probs = Probs::heads_and_rows;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    padded.dtype = dtype;
    padded.bias_dtype = dtype == DType::f64 ? DType::f32 : dtype;
    add(std::string("padded_") + dtype_name(dtype), padded);
  }

  AttentionConfig masked = base;
  masked.bias = Bias::with_infinite;
  masked.visible = Visible::full;
  masked.lengths = Lengths::kv;
  masked.softcap = 2.0;
  masked.kv_heads = KvHeads::mapped;
  masked.probs = Probs::all;
  add("masked", masked);
  masked.bias = Bias::rank2;
  masked.visible = Visible::per_key;
  masked.scale = Scale::negative;
  masked.kv_heads = KvHeads::one;
  masked.arrangement = Arrangement::gaps;
  add("masked_shared", masked);

  AttentionConfig packed = padded;
  packed.dtype = packed.bias_dtype = DType::f32;
  packed.arrangement = Arrangement::packed;
  add("packed", packed);
  packed.dtype = packed.bias_dtype = DType::bf16;
  packed.causal = Causal::at_offset;
  packed.bias = Bias::per_key;
  packed.kv_heads = KvHeads::equal;
  add("packed_bf16", packed);

  AttentionConfig paged = base;
  paged.arrangement = Arrangement::paged;
  paged.lengths = Lengths::q_and_kv;
  paged.causal = Causal::bottom_right;
  add("paged", paged);

  AttentionConfig decode = base;
  decode.seqlen_q = 1;
  decode.seqlen_kv = 2500;
  decode.lengths = Lengths::kv;
  decode.kv_heads = KvHeads::grouped;
  decode.head_dim = decode.head_dim_v = 16;
  add("decode", decode);
  decode.sinks = Sinks::given;
  decode.alibi = true;
  decode.window_left = 1500;
  decode.dtype = DType::bf16;
  decode.probs = Probs::all;
  add("decode_bf16", decode);
  decode.dtype = DType::f64;
  decode.seqlen_q = 3;
  decode.causal = Causal::bottom_right;
  add("few_queries_f64", decode);
  return all;
}

}  // namespace multihead::test
