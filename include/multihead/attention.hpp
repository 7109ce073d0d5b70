// Fused scaled-dot-product attention on the CPU.
//
//   scores[b,h,i,j] = scale * dot(q[b,i,h,:], k[b,j,g,:])     g = h / (H / Hkv)
//   probs[b,h,i,:]  = softmax of the visible scores[b,h,i,:]
//   out[b,i,h,:]    = sum_j probs[b,h,i,j] * v[b,j,g,:]
//
// The [Sq, Skv] matrix is never stored: docs/algorithm.md, section 2.
//
// Views are indexed [batch, token, head, feature] whatever the order in memory. bshd() and bhsd() (layout.hpp) make
// them of your buffers, float, double, bf16 or f16, pointer, std::vector or span:
//
//   attention_forward({.q = bhsd(q_data, B, H, Sq, D),
//                      .k = bhsd(k_data, B, Hkv, Skv, D),
//                      .v = bhsd(v_data, B, Hkv, Skv, Dv)},
//                     {.out = bhsd(out_data, B, H, Sq, Dv)});
//
// So does {pointer, {B, S, H, D}}, with strides if you like, and a Tensor is a view as it is: any_view.hpp.
#pragma once

#include "multihead/any_view.hpp"
#include "multihead/attention_options.hpp"
#include "multihead/layout.hpp"

namespace multihead {

/// q, k, v: each f32, bf16 or f16 in any mixture, or all f64. Last axis contiguous; other strides free, 0 and negative
/// ones included.
struct AttentionInput {
  InputView<4> q;  ///< [B, Sq, H, D]
  InputView<4> k;  ///< [B, Skv, Hkv, D]
  InputView<4> v;  ///< [B, Skv, Hkv, Dv]
};

/// Give `row_max` and `row_sum` buffers if attention_backward follows. Absent views are not computed. The last axis of
/// `out` and of `probs` must be contiguous; other strides are free, but not 0.
struct AttentionOutput {
  OutputView<4> out;           ///< [B, Sq, H, Dv], f32, bf16 or f16; f64 with f64
  OutputView<4> probs = {};    ///< [B, H, Sq, Skv] or the part that options.probs selects; f32 (f64 with f64)
  OutputView<3> row_max = {};  ///< [B, H, Sq], f32 (f64 with f64): the largest visible score (or sink)
  OutputView<3> row_sum = {};  ///< [B, H, Sq]: sum of exp(score - row_max)
  OutputView<3> lse = {};      ///< [B, H, Sq]: row_max + log(row_sum), natural
};

/// Computes attention.
///
/// Weights below e^-87.3 (f64: e^-708.3) of their row's largest are 0, in `probs` and in all sums: docs/numerics.md.
/// Finite input raises no invalid, divide-by-zero or overflow flag unless a result overflows.
///
/// @param input   read only
/// @param output  overwritten; must not overlap the input
/// @throws ShapeError        if extents, strides or options disagree. Nothing has been written by then.
/// @throws UnsupportedError  if a dtype is of the wrong kind. Nothing has been written by then.
///
/// Cost     2*B*H*Sq*Skv*(D + Dv) flops; about half with a square causal mask; hidden tiles cost nothing.
/// Memory   beside the outputs at most 3.5 MB + 8 KB * (D + Dv) per thread in f32 (1.5 MB more past 8,192 keys; twice
///          all that in f64), whatever Sq and Skv are. More in two cases: with `probs` 4 * (D + Dv + 50) * Skv bytes
///          per thread; with at most 16 queries per kv head 4 * (Dv + 3) bytes per query and head for each 1,024 keys.
/// Threads  the result is bitwise equal for any thread count and any batch mates.
/// Source   Milakov & Gimelshein 2018, alg. 3; Dao 2023, alg. 1.
MULTIHEAD_API void attention_forward(const AttentionInput& input, const AttentionOutput& output,
                                     const AttentionOptions& options = {});

/// What the forward left behind, and the gradients that come from above.
struct AttentionBackwardInput {
  InputView<4> q, k, v;    ///< as given to the forward
  InputView<4> out;        ///< [B, Sq, H, Dv] as returned
  InputView<3> row_max;    ///< [B, H, Sq] as returned
  InputView<3> row_sum;    ///< [B, H, Sq] as returned
  InputView<4> dout;       ///< [B, Sq, H, Dv]
  InputView<3> dlse = {};  ///< [B, H, Sq]; unset = 0
};

/// Absent views are not computed. dtypes as their primals may be; dbias, dsinks, dslopes f32 (f64 with f64).
struct AttentionGradients {
  OutputView<4> dq = {};       ///< [B, Sq, H, D]
  OutputView<4> dk = {};       ///< [B, Skv, Hkv, D]
  OutputView<4> dv = {};       ///< [B, Skv, Hkv, Dv]
  BroadcastOutput dbias = {};  ///< the shape of bias, reduced over its broadcast axes
  OutputView<1> dsinks = {};   ///< [H]
  OutputView<1> dslopes = {};  ///< [H], the gradient of alibi_slopes
};

/// Gradients of attention. `options` must be those of the forward (probs selection is ignored).
///
/// @param gradients  overwritten; must not overlap the inputs. The last axis of dq, dk and dv must be contiguous
/// @throws ShapeError, UnsupportedError  as attention_forward; page_table is refused
///
/// Cost     5*2*B*H*Sq*Skv*D flops for dq, dk and dv; dbias adds two products of five.
/// Memory   beside the gradients 1 MB + 4 KB * (D + Dv) per thread, 4 * B * H * Sq bytes, and for dq
///          (4 * threads + 3) * 4 * (H / Hkv) * (Sq + 48) * D bytes, twice that past 32,768 keys; all twice in f64.
///          Nothing of size [Sq, Skv].
/// Threads  deterministic, bitwise equal for any thread count and any batch mates.
/// Source   Dao et al. 2022, alg. 4; Dao 2023, alg. 2.
MULTIHEAD_API void attention_backward(const AttentionBackwardInput& input, const AttentionGradients& gradients,
                                      const AttentionOptions& options = {});

/// Two partial results over disjoint sets of keys, each out [B, Sq, H, Dv] with its lse [B, H, Sq].
struct PartialAttention {
  InputView<4> out;
  InputView<3> lse;
};

/// Joins two partial results exactly as if their keys had been seen together; empty ones (lse = -infinity) included.
/// output.out and output.lse may be the buffers of `a` or `b`. Other fields of output must be absent.
/// @throws ShapeError, UnsupportedError  before anything is written
MULTIHEAD_API void attention_merge(const PartialAttention& a, const PartialAttention& b, const AttentionOutput& output,
                                   Executor* threads = nullptr);

}  // namespace multihead
