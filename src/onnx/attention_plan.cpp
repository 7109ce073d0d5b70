#include "onnx/attention_plan.hpp"

#include <cmath>
#include <string>

#include "core/require.hpp"

namespace multihead {
namespace {

constexpr const char* kName = "onnx_attention";

std::string type_of(const OnnxView& x) { return x ? onnx_type_name(x.type) : "absent"; }
std::string text_of(const std::optional<index_t>& x) { return x ? std::to_string(*x) : "unset"; }

bool is_float(OnnxType type) {
  return type == OnnxType::f16 || type == OnnxType::bf16 || type == OnnxType::f32 || type == OnnxType::f64;
}

void check_attributes(const OnnxAttentionOptions& o) {
  require(o.opset >= 23, kName, "the operator exists from opset 23 on", {{"opset", o.opset}});
  require(!o.scale || (std::isfinite(*o.scale) && *o.scale >= 0), kName, "scale must be finite and not negative",
          {{"scale", o.scale.value_or(0)}}, "q and k are each multiplied by its square root");
  require(std::isfinite(o.softcap) && o.softcap >= 0, kName, "softcap must be finite and not negative",
          {{"softcap", o.softcap}}, "0 turns it off");
  require(o.left_window_size >= -1 && o.right_window_size >= -1, kName,
          "left_window_size and right_window_size must be -1 or more",
          {{"left_window_size", o.left_window_size}, {"right_window_size", o.right_window_size}},
          "-1 leaves a side open");
  require(o.opset >= 25 || (o.left_window_size == -1 && o.right_window_size == -1), kName,
          "left_window_size and right_window_size exist from opset 25 on",
          {{"left_window_size", o.left_window_size}, {"right_window_size", o.right_window_size}, {"opset", o.opset}});
  require(o.qk_matmul_output_mode >= 0 && o.qk_matmul_output_mode <= 3, kName,
          "qk_matmul_output_mode must be 0, 1, 2 or 3", {{"qk_matmul_output_mode", o.qk_matmul_output_mode}});
  require(!o.softmax_precision || is_float(*o.softmax_precision), kName,
          "softmax_precision must be 1 (f32), 10 (f16), 11 (f64) or 16 (bf16)",
          {{"softmax_precision", static_cast<index_t>(o.softmax_precision.value_or(OnnxType::f32))}});
}

void check_presence(const OnnxAttentionInput& in, const OnnxAttentionOptions& o) {
  require(in.q && in.k && in.v, kName, "q, k and v must be given",
          {{"q", shape_of(in.q)}, {"k", shape_of(in.k)}, {"v", shape_of(in.v)}});
  require(bool(in.past_key) == bool(in.past_value), kName, "past_key and past_value must be given together",
          {{"past_key", shape_of(in.past_key)}, {"past_value", shape_of(in.past_value)}});
  require(o.present_key == o.present_value, kName, "present_key and present_value must be asked for together",
          {{"present_key", index_t{o.present_key}}, {"present_value", index_t{o.present_value}}});
  require(!in.nonpad_kv_seqlen || o.opset >= 24, kName, "nonpad_kv_seqlen exists from opset 24 on",
          {{"nonpad_kv_seqlen", shape_of(in.nonpad_kv_seqlen)}, {"opset", o.opset}});
  require(!in.nonpad_kv_seqlen || (!in.past_key && !o.present_key), kName,
          "nonpad_kv_seqlen must not be combined with past inputs or present outputs",
          {{"nonpad_kv_seqlen", shape_of(in.nonpad_kv_seqlen)},
           {"past_key", shape_of(in.past_key)},
           {"present_key", index_t{o.present_key}}});
}

void check_types(const OnnxAttentionInput& in) {
  require<UnsupportedError>(is_float(in.q.type) && is_float(in.v.type), kName,
                            "q, k and v must be f16, bf16, f32 or f64",
                            {{"q", type_of(in.q)}, {"k", type_of(in.k)}, {"v", type_of(in.v)}});
  require<UnsupportedError>(in.k.type == in.q.type && (!in.past_key || in.past_key.type == in.q.type), kName,
                            "k and past_key must have the type of q",
                            {{"q", type_of(in.q)}, {"k", type_of(in.k)}, {"past_key", type_of(in.past_key)}});
  require<UnsupportedError>(!in.past_value || in.past_value.type == in.v.type, kName,
                            "past_value must have the type of v",
                            {{"v", type_of(in.v)}, {"past_value", type_of(in.past_value)}});
  require<UnsupportedError>(!in.nonpad_kv_seqlen || in.nonpad_kv_seqlen.type == OnnxType::i64, kName,
                            "nonpad_kv_seqlen must be i64", {{"nonpad_kv_seqlen", type_of(in.nonpad_kv_seqlen)}});
}

// Heads come from the shapes at rank 4 and from the attributes at rank 3.
void plan_heads(const OnnxAttentionInput& in, const OnnxAttentionOptions& o, OnnxAttentionPlan& plan) {
  const int rank = in.q.rank();
  require((rank == 3 || rank == 4) && in.k.rank() == rank && in.v.rank() == rank, kName,
          "q, k and v must all have rank 3 or all rank 4",
          {{"q", shape_of(in.q)}, {"k", shape_of(in.k)}, {"v", shape_of(in.v)}});
  const auto &hq = o.q_num_heads, &hkv = o.kv_num_heads;
  if (rank == 3) {
    require(hq && hkv && *hq > 0 && *hkv > 0, kName, "rank 3 needs positive q_num_heads and kv_num_heads",
            {{"q_num_heads", text_of(hq)}, {"kv_num_heads", text_of(hkv)}, {"q", shape_of(in.q)}});
    require(in.q.shape[2] % *hq == 0 && in.k.shape[2] % *hkv == 0 && in.v.shape[2] % *hkv == 0, kName,
            "widths must be multiples of q_num_heads and kv_num_heads",
            {{"q", shape_of(in.q)},
             {"k", shape_of(in.k)},
             {"v", shape_of(in.v)},
             {"q_num_heads", *hq},
             {"kv_num_heads", *hkv}});
    plan.num_heads = *hq;
    plan.num_kv_heads = *hkv;
  } else {
    require(o.opset < 25 || (!hq && !hkv), kName,
            "q_num_heads and kv_num_heads must not be given for rank 4 from opset 25 on",
            {{"q_num_heads", text_of(hq)}, {"kv_num_heads", text_of(hkv)}, {"opset", o.opset}});
    plan.num_heads = in.q.shape[1];
    plan.num_kv_heads = in.k.shape[1];
    require(
        hq.value_or(plan.num_heads) == plan.num_heads && hkv.value_or(plan.num_kv_heads) == plan.num_kv_heads, kName,
        "q_num_heads and kv_num_heads must be the heads of q and k",
        {{"q_num_heads", text_of(hq)}, {"kv_num_heads", text_of(hkv)}, {"q", shape_of(in.q)}, {"k", shape_of(in.k)}});
  }
  require(plan.num_heads > 0 && plan.num_kv_heads > 0 && plan.num_heads % plan.num_kv_heads == 0, kName,
          "the heads of q must be a positive multiple of the heads of k",
          {{"q_num_heads", plan.num_heads}, {"kv_num_heads", plan.num_kv_heads}});
}

void plan_extents(const OnnxAttentionInput& in, OnnxAttentionPlan& plan) {
  plan.q = token_view(in.q, plan.num_heads);
  plan.k = token_view(in.k, plan.num_kv_heads);
  require(in.v.rank() == 3 || in.v.shape[1] == plan.num_kv_heads, kName, "k and v must have the same heads",
          {{"k", shape_of(in.k)}, {"v", shape_of(in.v)}});
  plan.v = token_view(in.v, plan.num_kv_heads);
  plan.batch = plan.q.shape[0];
  plan.seqlen_q = plan.q.shape[1];
  plan.head_dim = plan.q.shape[3];
  plan.head_dim_v = plan.v.shape[3];
  require(plan.k.shape[0] == plan.batch && plan.v.shape[0] == plan.batch, kName, "q, k and v must have the same batch",
          {{"q", shape_of(in.q)}, {"k", shape_of(in.k)}, {"v", shape_of(in.v)}});
  require(plan.k.shape[3] == plan.head_dim, kName, "q and k must have the same head size",
          {{"q_head_size", plan.head_dim}, {"k_head_size", plan.k.shape[3]}});
  require(plan.v.shape[1] == plan.k.shape[1], kName, "k and v must have the same length",
          {{"k", shape_of(in.k)}, {"v", shape_of(in.v)}});
  require(plan.head_dim > 0 && plan.head_dim_v > 0, kName, "head sizes must be positive",
          {{"head_size", plan.head_dim}, {"v_head_size", plan.head_dim_v}});
}

void check_past(const OnnxView& past, const char* name, const OnnxView4& now, index_t seqlen_past) {
  const std::vector<index_t> want = {now.shape[0], now.shape[2], seqlen_past, now.shape[3]};
  require(past.shape == want, kName,
          "past_key and past_value must be [batch, kv_num_heads, past, head_size] of k and v",
          {{name, shape_of(past)}, {"expected", shape_text(want)}});
}

void plan_past(const OnnxAttentionInput& in, OnnxAttentionPlan& plan) {
  if (in.past_key) {
    require(in.past_key.rank() == 4, kName, "past_key must have rank 4", {{"past_key", shape_of(in.past_key)}});
    plan.seqlen_past = in.past_key.shape[2];
    check_past(in.past_key, "past_key", plan.k, plan.seqlen_past);
    check_past(in.past_value, "past_value", plan.v, plan.seqlen_past);
    plan.past_key = token_view(in.past_key, plan.num_kv_heads);
    plan.past_value = token_view(in.past_value, plan.num_kv_heads);
  }
  plan.seqlen_kv = plan.seqlen_past + plan.k.shape[1];
}

void plan_mask(const OnnxView& mask, index_t opset, OnnxAttentionPlan& plan) {
  plan.seqlen_seen = plan.seqlen_kv;
  if (!mask) return;
  const std::string target = "[" + std::to_string(plan.batch) + ", " + std::to_string(plan.num_heads) + ", " +
                             std::to_string(plan.seqlen_q) + ", " + std::to_string(plan.seqlen_kv) + "]";
  require(mask.rank() <= 4, kName, "attn_mask must have rank 4 or less", {{"attn_mask", shape_of(mask)}});
  const int missing = 4 - mask.rank();
  plan.mask = {mask.data, mask.type, {1, 1, 1, 1}, {0, 0, 0, 0}};
  for (int axis = 0; axis < mask.rank(); ++axis) {
    plan.mask.shape[missing + axis] = mask.shape[axis];
    plan.mask.stride[missing + axis] = mask.stride[axis];
  }
  const index_t last = plan.mask.shape[3];
  const bool is_short = opset >= 24 && mask.rank() > 0 && last < plan.seqlen_kv;
  if (is_short) plan.seqlen_seen = last;
  const std::array<index_t, 3> full = {plan.batch, plan.num_heads, plan.seqlen_q};
  bool fits = is_short || last == 1 || last == plan.seqlen_kv;
  for (int axis = 0; axis < 3; ++axis)
    fits = fits && (plan.mask.shape[axis] == 1 || plan.mask.shape[axis] == full[axis]);
  require(fits, kName, "attn_mask must broadcast to [batch, q_num_heads, q_sequence_length, total_sequence_length]",
          {{"attn_mask", shape_of(mask)}, {"expected", target}, {"opset", opset}},
          opset < 24 ? "a shorter last axis is padded from opset 24 on" : "its last axis may be shorter");
}

void plan_lengths(const OnnxView& nonpad, OnnxAttentionPlan& plan) {
  plan.offset = Tensor<index_t, 1>({plan.batch});
  plan.seqlens = Tensor<index_t, 1>({plan.batch});
  plan.has_seqlens = bool(nonpad);
  for (index_t b = 0; b < plan.batch; ++b) plan.offset(b) = plan.seqlen_past;
  for (index_t b = 0; b < plan.batch; ++b) plan.seqlens(b) = plan.seqlen_seen;
  if (!nonpad) return;
  require(nonpad.rank() == 1 && nonpad.shape[0] == plan.batch, kName, "nonpad_kv_seqlen must be [batch]",
          {{"nonpad_kv_seqlen", shape_of(nonpad)}, {"batch", plan.batch}});
  for (index_t b = 0; b < plan.batch; ++b) {
    const index_t length = static_cast<const index_t*>(nonpad.data)[b * nonpad.stride[0]];
    require(length >= 0 && length <= plan.seqlen_kv, kName, "nonpad_kv_seqlen must be in [0, kv_sequence_length]",
            {{"nonpad_kv_seqlen", length}, {"batch_index", b}, {"kv_sequence_length", plan.seqlen_kv}});
    require(length <= plan.seqlen_seen, kName, "attn_mask must reach the longest nonpad_kv_seqlen",
            {{"attn_mask_length", plan.seqlen_seen}, {"nonpad_kv_seqlen", length}, {"batch_index", b}});
    plan.seqlens(b) = length;
    plan.offset(b) = length - plan.seqlen_q;
  }
}

// A bound that passes both ends for every query is open; it could also overflow where it is added to a position.
std::optional<index_t> window_bound(index_t size, const OnnxAttentionPlan& plan) {
  if (size == -1 || size >= plan.seqlen_q + plan.seqlen_kv) return {};
  return size;
}

}  // namespace

std::string shape_of(const OnnxView& x) { return x ? shape_text(x.shape) : "absent"; }

OnnxView4 token_view(const OnnxView& x, index_t heads) {
  const auto &n = x.shape, &s = x.stride;
  if (x.rank() == 4) return {x.data, x.type, {n[0], n[2], n[1], n[3]}, {s[0], s[2], s[1], s[3]}};
  const index_t width = n[2] / heads;
  return {x.data, x.type, {n[0], n[1], heads, width}, {s[0], s[1], width * s[2], s[2]}};
}

OnnxAttentionPlan plan_onnx_attention(const OnnxAttentionInput& input, const OnnxAttentionOptions& options) {
  OnnxAttentionPlan plan;
  check_attributes(options);
  check_presence(input, options);
  check_types(input);
  plan_heads(input, options, plan);
  plan_extents(input, plan);
  plan_past(input, plan);
  plan_mask(input.attn_mask, options.opset, plan);
  plan_lengths(input.nonpad_kv_seqlen, plan);
  plan.compute_f64 =
      input.q.type == OnnxType::f64 || input.v.type == OnnxType::f64 || options.softmax_precision == OnnxType::f64;
  plan.scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(plan.head_dim)));
  if (options.softcap > 0) plan.softcap = options.softcap;
  plan.is_causal = options.is_causal;
  plan.window_left = window_bound(options.left_window_size, plan);
  plan.window_right = window_bound(options.right_window_size, plan);
  return plan;
}

}  // namespace multihead
