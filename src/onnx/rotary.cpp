// ONNX RotaryEmbedding by the rotation of the layer: the rows of the caches that the tokens need are gathered, then the
// features are rotated.
#include "core/require.hpp"
#include "multihead/nn/rope.hpp"
#include "multihead/onnx/operators.hpp"
#include "onnx/attention_plan.hpp"

namespace multihead {
namespace {

constexpr const char* kName = "onnx_rotary_embedding";

void check_types(const OnnxRotaryInput& in) {
  require(in.x && in.cos_cache && in.sin_cache, kName, "x, cos_cache and sin_cache must be given",
          {{"x", shape_of(in.x)}, {"cos_cache", shape_of(in.cos_cache)}, {"sin_cache", shape_of(in.sin_cache)}});
  const OnnxType type = in.x.type;
  require<UnsupportedError>((type == OnnxType::f16 || type == OnnxType::bf16 || type == OnnxType::f32) &&
                                in.cos_cache.type == type && in.sin_cache.type == type,
                            kName, "x, cos_cache and sin_cache must be of one type, f16, bf16 or f32",
                            {{"x", onnx_type_name(type)},
                             {"cos_cache", onnx_type_name(in.cos_cache.type)},
                             {"sin_cache", onnx_type_name(in.sin_cache.type)}});
  require<UnsupportedError>(!in.position_ids || in.position_ids.type == OnnxType::i64, kName,
                            "position_ids must be i64", {{"position_ids", onnx_type_name(in.position_ids.type)}});
}

// x as [B, S, H, D].
OnnxView4 plan_tokens(const OnnxView& x, const std::optional<index_t>& num_heads) {
  const std::string heads = num_heads ? std::to_string(*num_heads) : "unset";
  require(x.rank() == 3 || x.rank() == 4, kName, "x must have rank 3 or 4", {{"x", shape_of(x)}});
  if (x.rank() == 3) {
    require(num_heads && *num_heads > 0 && x.shape[2] % *num_heads == 0, kName,
            "rank 3 needs a positive num_heads that divides the width", {{"num_heads", heads}, {"x", shape_of(x)}});
  } else {
    // The attribute's default in older exporters is 0; the shape says it all.
    require(num_heads.value_or(0) == 0 || *num_heads == x.shape[1], kName, "num_heads must be the heads of x",
            {{"num_heads", heads}, {"x", shape_of(x)}});
  }
  const OnnxView4 tokens = token_view(x, num_heads.value_or(1));
  require(tokens.shape[3] > 0 && tokens.shape[3] % 2 == 0, kName, "the head size must be even and positive",
          {{"head_size", tokens.shape[3]}, {"x", shape_of(x)}});
  return tokens;
}

index_t plan_rotary_dim(index_t rotary_dim, index_t head_dim) {
  require(rotary_dim >= 0 && rotary_dim % 2 == 0 && rotary_dim <= head_dim, kName,
          "rotary_embedding_dim must be even and in [0, head_size]",
          {{"rotary_embedding_dim", rotary_dim}, {"head_size", head_dim}}, "0 turns the whole head");
  return rotary_dim == 0 ? head_dim : rotary_dim;
}

// Every cache holds [positions, r/2] with position_ids, else [B, S, r/2].
void check_caches(const OnnxRotaryInput& in, const OnnxView4& x, index_t rotary_dim) {
  const index_t half = rotary_dim / 2, batch = x.shape[0], seqlen = x.shape[1];
  std::vector<index_t> want = {batch, seqlen, half};
  if (in.position_ids) {
    require(in.position_ids.shape == std::vector<index_t>{batch, seqlen}, kName,
            "position_ids must be [batch, sequence_length]",
            {{"position_ids", shape_of(in.position_ids)}, {"x", shape_of(in.x)}});
    want = {in.cos_cache.rank() == 2 ? in.cos_cache.shape[0] : 0, half};
  }
  require(in.cos_cache.shape == want && in.sin_cache.shape == want, kName,
          "caches must be [positions, r/2] with position_ids, else [batch, sequence_length, r/2]",
          {{"cos_cache", shape_of(in.cos_cache)},
           {"sin_cache", shape_of(in.sin_cache)},
           {"position_ids", shape_of(in.position_ids)},
           {"x", shape_of(in.x)},
           {"r", rotary_dim}});
}

index_t position_of(const OnnxView& ids, index_t b, index_t s, index_t positions) {
  const index_t position = static_cast<const index_t*>(ids.data)[b * ids.stride[0] + s * ids.stride[1]];
  require(position >= 0 && position < positions, kName, "position_ids must be in [0, positions)",
          {{"position_id", position}, {"batch_index", b}, {"token", s}, {"positions", positions}});
  return position;
}

// The rows of a cache that the tokens stand for: [B, S, r/2] in f32.
Tensor<float, 3> angles_of(const OnnxView& cache, const OnnxView& ids, const OnnxView4& x, index_t half) {
  Tensor<float, 3> angles({x.shape[0], x.shape[1], half});
  visit_onnx_type(cache.type, [&](auto element) {
    const auto* from = static_cast<const decltype(element)*>(cache.data);
    for (index_t b = 0; b < x.shape[0]; ++b) {
      for (index_t s = 0; s < x.shape[1]; ++s) {
        const index_t row =
            ids ? position_of(ids, b, s, cache.shape[0]) * cache.stride[0] : b * cache.stride[0] + s * cache.stride[1];
        for (index_t p = 0; p < half; ++p) angles(b, s, p) = compute_value<float>(from[row + p * cache.stride.back()]);
      }
    }
  });
  return angles;
}

}  // namespace

OnnxTensor onnx_rotary_embedding(const OnnxRotaryInput& input, const OnnxRotaryOptions& options) {
  check_types(input);
  const OnnxView4 tokens = plan_tokens(input.x, options.num_heads);
  const index_t rotary_dim = plan_rotary_dim(options.rotary_embedding_dim, tokens.shape[3]);
  check_caches(input, tokens, rotary_dim);
  const Tensor<float, 3> cos = angles_of(input.cos_cache, input.position_ids, tokens, rotary_dim / 2);
  const Tensor<float, 3> sin = angles_of(input.sin_cache, input.position_ids, tokens, rotary_dim / 2);

  Tensor<float, 4> turned = converted<float>(tokens);
  const nn::RopePairing pairing = options.interleaved ? nn::RopePairing::interleaved : nn::RopePairing::half_split;
  nn::rope_apply<float>(turned.view(), turned.view(), {cos.view(), sin.view(), pairing});

  OnnxTensor result(input.x.type, input.x.shape);
  store_rounded<float>(turned.view(), input.x.type, result.bytes(), token_view(result, tokens.shape[2]).stride);
  return result;
}

}  // namespace multihead
