// What an Attention node asks for, with every rule of the standard checked.
#pragma once

#include <optional>
#include <string>

#include "multihead/onnx/operators.hpp"
#include "onnx/convert.hpp"

namespace multihead {

struct OnnxAttentionPlan {
  index_t batch = 0, num_heads = 0, num_kv_heads = 0;
  index_t seqlen_q = 0, seqlen_past = 0, seqlen_kv = 0;  // seqlen_kv = past + new: the standard's total
  index_t head_dim = 0, head_dim_v = 0;

  OnnxView4 q, k, v;               // [B, S, H, D]; k and v are the new tokens alone
  OnnxView4 past_key, past_value;  // [B, past, Hkv, D]
  OnnxView4 mask;                  // right-aligned to rank 4, missing axes of extent 1; data null if there is none
  index_t seqlen_seen = 0;         // keys that the mask reaches; the others are hidden

  bool compute_f64 = false;
  double scale = 0.0;
  std::optional<double> softcap;
  bool is_causal = false;
  std::optional<index_t> window_left, window_right;
  Tensor<index_t, 1> offset;   // [B]: query i stands at key offset[b] + i
  Tensor<index_t, 1> seqlens;  // [B] keys present, at most seqlen_seen
  bool has_seqlens = false;

  bool has_diagonal() const { return is_causal || window_left || window_right; }
};

/// @throws ShapeError, UnsupportedError  as onnx_attention
OnnxAttentionPlan plan_onnx_attention(const OnnxAttentionInput& input, const OnnxAttentionOptions& options);

/// Its shape as it stands in an error text; "absent" without one.
std::string shape_of(const OnnxView& x);

/// x [B, H, S, D] or [B, S, H*D] as [B, S, H, D]; `heads` divides the width.
OnnxView4 token_view(const OnnxView& x, index_t heads);

}  // namespace multihead
