// ONNX Attention by attention_forward, without building a mask: keys beyond a short attn_mask are cut off, the other
// rules are options of attention_forward, with the diagonal at explicit offsets.
#include "multihead/attention.hpp"

#include <cstring>
#include <optional>

#include "onnx/attention_plan.hpp"
#include "onnx/scores.hpp"

namespace multihead {
namespace {

using Stride4 = std::array<index_t, 4>;

// Strides of [B, S, H, D] inside a contiguous [B, H, S, D], or [B, S, H, D] itself.
Stride4 token_strides(const std::array<index_t, 4>& shape, bool heads_first) {
  const index_t row = shape[3];
  if (heads_first) return {shape[1] * shape[2] * row, row, shape[1] * row, 1};
  return {shape[1] * shape[2] * row, shape[2] * row, row, 1};
}

OnnxView4 tokens_of(const OnnxTensor& cache) { return token_view(cache.view(), 0); }

// past ++ now along the tokens, [B, Hkv, past + new, D].
OnnxTensor concatenated(const OnnxView4& past, const OnnxView4& now) {
  const index_t old = past.shape[1], seqlen = old + now.shape[1];
  OnnxTensor result(now.type, {now.shape[0], now.shape[2], seqlen, now.shape[3]});
  const OnnxView4 target = tokens_of(result);
  const index_t bytes = onnx_type_bytes(now.type);
  const auto copy = [&](const OnnxView4& from, index_t first) {
    const auto* source = static_cast<const std::byte*>(from.data);
    for_each_index(from.shape, [&](index_t, index_t b, index_t s, index_t h, index_t d) {
      const index_t at = b * target.stride[0] + (first + s) * target.stride[1] + h * target.stride[2] + d;
      const index_t source_at = b * from.stride[0] + s * from.stride[1] + h * from.stride[2] + d * from.stride[3];
      std::memcpy(result.bytes() + at * bytes, source + source_at * bytes, static_cast<std::size_t>(bytes));
    });
  };
  copy(past, 0);
  copy(now, old);
  return result;
}

// A result of the core in the computing type C that ends in an ONNX tensor: written in place where the core can write
// the tensor's type, else into a buffer that finish() rounds.
template <class C>
class Staged {
 public:
  Staged(OnnxTensor& target, const std::array<index_t, 4>& shape, const Stride4& stride, bool in_place)
      : target_(target), shape_(shape), stride_(stride) {
    if (!in_place) buffer_ = Tensor<C, 4>(shape);
  }

  OutputView<4> view() {
    if (buffer_.data() != nullptr) return buffer_.view();
    return core_output(target_.bytes(), target_.type(), shape_, stride_);
  }

  void finish() {
    if (buffer_.data() != nullptr) store_rounded<C>(buffer_.view(), target_.type(), target_.bytes(), stride_);
  }

 private:
  OnnxTensor& target_;
  std::array<index_t, 4> shape_;
  Stride4 stride_;
  Tensor<C, 4> buffer_;
};

// The input in a type that the core can take beside the others; `buffer` owns it if it had to be converted.
template <class C>
InputView<4> core_tokens(const OnnxView4& x, Tensor<C, 4>& buffer) {
  if (std::is_same_v<C, float> || x.type == onnx_type_of<C>) return core_input(x);
  buffer = converted<C>(x);
  return buffer.view();
}

template <class C>
AttentionOptions core_options(const OnnxAttentionPlan& plan, Tensor<C, 4>& bias) {
  AttentionOptions options;
  options.scale = plan.scale;
  options.softcap = plan.softcap;
  if (plan.mask.data != nullptr) {
    (plan.mask.type == OnnxType::boolean ? options.mask.visible : options.bias) = core_mask(plan.mask, bias);
  }
  if (plan.has_diagonal()) options.mask.diagonal_offset = plan.offset.view();
  options.mask.causal = plan.is_causal ? Causal::at_offset : Causal::off;
  options.mask.window_left = plan.window_left;
  options.mask.window_right = plan.window_right;
  if (plan.has_seqlens) options.mask.seqlen_kv = plan.seqlens.view();
  return options;
}

template <class C>
void run(OnnxAttentionPlan& plan, const OnnxAttentionOptions& options, OnnxAttentionOutput& output) {
  const bool heads_first = output.y.shape().size() == 4;
  const std::array<index_t, 4> y_shape = {plan.batch, plan.seqlen_q, plan.num_heads, plan.head_dim_v};
  const std::array<index_t, 4> probs_shape = {plan.batch, plan.num_heads, plan.seqlen_q, plan.seqlen_seen};
  const Stride4 probs_stride = {plan.num_heads * plan.seqlen_q * plan.seqlen_kv, plan.seqlen_q * plan.seqlen_kv,
                                plan.seqlen_kv, 1};
  const OnnxType type = output.y.type();
  const bool wants_probs = options.qk_matmul_output && options.qk_matmul_output_mode == 3;

  Tensor<C, 4> q, k, v, bias;
  AttentionOptions core = core_options(plan, bias);
  core.threads = options.threads;
  OnnxView4 seen_k = plan.k, seen_v = plan.v;
  seen_k.shape[1] = seen_v.shape[1] = plan.seqlen_seen;

  Staged<C> y(output.y, y_shape, token_strides(y_shape, heads_first),
              std::is_same_v<C, float> || type == OnnxType::f64);
  AttentionOutput result{.out = y.view()};
  std::optional<Staged<C>> probs;
  if (wants_probs) {
    probs.emplace(output.qk_matmul_output, probs_shape, probs_stride, type == onnx_type_of<C>);
    result.probs = probs->view();
  }
  attention_forward({core_tokens(plan.q, q), core_tokens(seen_k, k), core_tokens(seen_v, v)}, result, core);
  y.finish();
  if (probs) probs->finish();
  if (options.qk_matmul_output && !wants_probs) {
    write_scores<C>(plan, options.qk_matmul_output_mode, core, output.qk_matmul_output);
  }
}

}  // namespace

OnnxAttentionOutput onnx_attention(const OnnxAttentionInput& input, const OnnxAttentionOptions& options) {
  OnnxAttentionPlan plan = plan_onnx_attention(input, options);
  const index_t B = plan.batch, Sq = plan.seqlen_q, H = plan.num_heads, Dv = plan.head_dim_v;
  OnnxAttentionOutput output;
  output.y = input.q.rank() == 4 ? OnnxTensor(input.q.type, {B, H, Sq, Dv}) : OnnxTensor(input.q.type, {B, Sq, H * Dv});
  if (options.qk_matmul_output) output.qk_matmul_output = OnnxTensor(input.q.type, {B, H, Sq, plan.seqlen_kv});
  OnnxTensor keys, values;
  if (plan.seqlen_past > 0 || options.present_key) {
    keys = concatenated(plan.past_key, plan.k);
    values = concatenated(plan.past_value, plan.v);
    plan.k = tokens_of(keys);
    plan.v = tokens_of(values);
  }
  plan.compute_f64 ? run<double>(plan, options, output) : run<float>(plan, options, output);
  if (options.present_key) {
    output.present_key = std::move(keys);
    output.present_value = std::move(values);
  }
  return output;
}

}  // namespace multihead
