// The attention operators of the ONNX standard, computed by attention_forward: Attention (versions 23, 24, 25) and
// RotaryEmbedding (23). They follow the text of the standard exactly. Attributes have its names and values, such as -1
// for an unlimited window and 0 for no softcap.
//
//   scores = (q sqrt(scale)) (k sqrt(scale))^T          k, v = past followed by new tokens
//   capped = softcap * tanh(scores / softcap)           if softcap > 0
//   biased = capped + attn_mask, -inf if a rule hides the key
//   probs  = softmax(biased); 0 in a row without a visible key
//   y      = probs v
//
// Where the text of the standard and its NumPy reference disagree, this follows the text: mode 0 gives raw scores also
// with a softcap. Where both leave a choice, it uses the higher precision: softmax_precision is a lower bound.
#pragma once

#include <optional>

#include "multihead/onnx/tensor.hpp"
#include "multihead/threads.hpp"

namespace multihead {

/// q, k and past_key are of type T1, v and past_value of T2; each f16, bf16, f32 or f64.
/// Rank 4: [B, H, S, D]. Rank 3: [B, S, H*D]. past_* are always of rank 4.
struct OnnxAttentionInput {
  OnnxView q;  ///< [B, Hq, Sq, D] or [B, Sq, Hq*D]
  OnnxView k;  ///< [B, Hkv, Skv, D] or [B, Skv, Hkv*D]
  OnnxView v;  ///< [B, Hkv, Skv, Dv] or [B, Skv, Hkv*Dv]
  /// bool (true = visible) or numbers (added); broadcast to [B, Hq, Sq, total], total = past + Skv. If the last
  /// extent n is below total, keys n and later are hidden from version 24 on; in version 23, n = 1 is broadcast.
  OnnxView attn_mask = {};
  OnnxView past_key = {};          ///< [B, Hkv, past, D]
  OnnxView past_value = {};        ///< [B, Hkv, past, Dv]
  OnnxView nonpad_kv_seqlen = {};  ///< [B] i64, valid keys; from version 24 on, without past or present
};

struct OnnxAttentionOptions {
  index_t opset = 25;  ///< of the model: selects the rules of version 23, 24 or 25 (and later)

  // Attributes.
  /// Key j is visible to query i when j <= p. p = i + offset, where offset is the past length, or nonpad_kv_seqlen[b] -
  /// Sq, or 0 if neither is given; never clamped.
  bool is_causal = false;
  index_t left_window_size = -1;             ///< key j is visible when p - left <= j; -1 = no limit; version 25 on
  index_t right_window_size = -1;            ///< key j is visible when j <= p + right; -1 = no limit; version 25 on
  std::optional<index_t> q_num_heads = {};   ///< required for rank 3; refused for rank 4 from version 25 on
  std::optional<index_t> kv_num_heads = {};  ///< as q_num_heads
  std::optional<double> scale = {};          ///< 0 or more, as its square root is used; unset = 1/sqrt(D)
  double softcap = 0.0;                      ///< 0 = off
  std::optional<OnnxType> softmax_precision = {};  ///< f16, bf16, f32 or f64
  /// What qk_matmul_output holds: 0 scores, 1 capped, 2 biased, 3 probs. (The standard had 1 and 2 swapped
  /// before May 2026; files of older exporters mean the other one.)
  index_t qk_matmul_output_mode = 0;

  // Which optional outputs to compute. present_key and present_value must be requested together.
  bool present_key = false;
  bool present_value = false;
  bool qk_matmul_output = false;

  Executor* threads = nullptr;  ///< null = the calling thread; results are bit-identical for any
};

struct OnnxAttentionOutput {
  OnnxTensor y;                 ///< T1, [B, Hq, Sq, Dv] or [B, Sq, Hq*Dv]: the rank of q
  OnnxTensor present_key;       ///< T1, [B, Hkv, total, D]
  OnnxTensor present_value;     ///< T2, [B, Hkv, total, Dv]
  OnnxTensor qk_matmul_output;  ///< T1, [B, Hq, Sq, total]
};

/// Attention of the ONNX standard, computed by attention_forward. Its mask rules need no [Sq, total] mask in memory.
///
/// Computes in f64 if T1, T2 or softmax_precision is f64, else in f32, and rounds once to the type of each output.
/// A numeric attn_mask of another type is converted to that type: finite values stay finite, -inf hides the key.
///
/// @throws ShapeError        if inputs, attributes or requested outputs violate a rule of the standard
/// @throws UnsupportedError  if an element type is not one of the operator's
///
/// Cost     that of attention_forward; modes 0 to 2 of qk_matmul_output repeat q k^T (2*B*Hq*Sq*total*D flops).
/// Memory   the outputs; past and new keys and values together, if there is a past; inputs whose type is converted.
/// Source   ONNX operator schema, ai.onnx Attention versions 23 to 25.
MULTIHEAD_API OnnxAttentionOutput onnx_attention(const OnnxAttentionInput& input,
                                                 const OnnxAttentionOptions& options = {});

struct OnnxRotaryInput {
  OnnxView x;                  ///< [B, H, S, D] or [B, S, H*D]; f16, bf16 or f32
  OnnxView cos_cache;          ///< [positions, r/2] with position_ids, else [B, S, r/2]; the type of x
  OnnxView sin_cache;          ///< as cos_cache
  OnnxView position_ids = {};  ///< [B, S] i64, each in [0, positions)
};

struct OnnxRotaryOptions {
  bool interleaved = false;               ///< pairs (2n, 2n+1); else (n, n + r/2)
  index_t rotary_embedding_dim = 0;       ///< r, even: number of rotated leading features; 0 = D
  std::optional<index_t> num_heads = {};  ///< required for rank 3
};

/// RotaryEmbedding of the ONNX standard: each pair (a, b) becomes (a cos - b sin, a sin + b cos).
/// @returns a tensor of the type and shape of x
/// @throws ShapeError, UnsupportedError  as onnx_attention
/// Source   ONNX operator schema, ai.onnx RotaryEmbedding version 23; Su et al. 2021, eq. 34.
MULTIHEAD_API OnnxTensor onnx_rotary_embedding(const OnnxRotaryInput& input, const OnnxRotaryOptions& options = {});

}  // namespace multihead
