// Fused scaled-dot-product attention on the CPU.
//
//   scores[b,h,i,j] = scale * dot(q[b,i,h,:], k[b,j,g,:])     g = h / (H / Hkv)
//   probs[b,h,i,:]  = softmax of the visible scores[b,h,i,:]
//   out[b,i,h,:]    = sum_j probs[b,h,i,j] * v[b,j,g,:]
//
// The [Sq, Skv] matrix is never stored: docs/algorithm.md, section 2.
//
// Views are indexed [batch, token, head, feature] whatever the order in memory. bshd() and bhsd() (layout.hpp) make
// such views of your own buffers: a pointer, std::vector or std::span of float, double, bf16 or f16.
//
//   attention_forward({.q = bhsd(q_data, B, H, Sq, D),
//                      .k = bhsd(k_data, B, Hkv, Skv, D),
//                      .v = bhsd(v_data, B, Hkv, Skv, Dv)},
//                     {.out = bhsd(out_data, B, H, Sq, Dv)});
//
// {pointer, {B, S, H, D}}, optionally followed by strides, and a Tensor also convert to views: see any_view.hpp.
#pragma once

#include "multihead/any_view.hpp"
#include "multihead/attention_options.hpp"
#include "multihead/layout.hpp"

namespace multihead {

/// q, k and v are each f32, bf16 or f16 in any combination, or all f64. Their last axis must be contiguous; the other
/// strides are free and may be 0 or negative.
struct AttentionInput {
  InputView<4> q;  ///< [B, Sq, H, D]
  InputView<4> k;  ///< [B, Skv, Hkv, D]
  InputView<4> v;  ///< [B, Skv, Hkv, Dv]
};

/// Results whose view is absent are not computed. attention_backward needs `row_max` and `row_sum`. The last axis of
/// `out` and of `probs` must be contiguous; other strides are free, but not 0.
struct AttentionOutput {
  OutputView<4> out;           ///< [B, Sq, H, Dv], f32, bf16 or f16; f64 for f64 input
  OutputView<4> probs = {};    ///< [B, H, Sq, Skv] or the part that options.probs selects; f32 (f64 for f64 input)
  OutputView<3> row_max = {};  ///< [B, H, Sq], f32 (f64 for f64 input): the largest visible score (or sink)
  OutputView<3> row_sum = {};  ///< [B, H, Sq], dtype as row_max: sum of exp(score - row_max)
  OutputView<3> lse = {};      ///< [B, H, Sq], dtype as row_max: row_max + log(row_sum), natural logarithm
};

/// Computes attention.
///
/// Probabilities below e^-87.3 (f64: e^-708.3) times the largest of their row are 0 in `probs` and in all sums, see
/// docs/numerics.md. Finite input raises no invalid, divide-by-zero or overflow flag unless a result overflows.
///
/// @param input   read only
/// @param output  overwritten; must not overlap the input
/// @throws ShapeError        if extents, strides or options disagree. Nothing has been written by then.
/// @throws UnsupportedError  if a dtype is of the wrong kind. Nothing has been written by then.
///
/// Cost     2*B*H*Sq*Skv*(D + Dv) flops; about half with a square causal mask; fully masked tiles are skipped.
/// Memory   besides the outputs at most 3.5 MB + 8 KB * (D + Dv) per thread in f32 (1.5 MB more past 8,192 keys; twice
///          all that in f64), whatever Sq and Skv are. More in two cases: with `probs` 4 * (D + Dv + 50) * Skv bytes
///          per thread; with at most 16 queries per kv head 4 * (Dv + 3) bytes per query and head for each 1,024 keys.
/// Threads  results are bit-identical for any number of threads and whatever else is in the batch.
/// Source   Milakov & Gimelshein 2018, alg. 3; Dao 2023, alg. 1.
MULTIHEAD_API void attention_forward(const AttentionInput& input, const AttentionOutput& output,
                                     const AttentionOptions& options = {});

/// Inputs and results of attention_forward, and the gradients of the loss with respect to those results.
struct AttentionBackwardInput {
  InputView<4> q, k, v;    ///< as given to the forward
  InputView<4> out;        ///< [B, Sq, H, Dv] as returned
  InputView<3> row_max;    ///< [B, H, Sq] as returned
  InputView<3> row_sum;    ///< [B, H, Sq] as returned
  InputView<4> dout;       ///< [B, Sq, H, Dv]
  InputView<3> dlse = {};  ///< [B, H, Sq]; absent = 0
};

/// Gradients whose view is absent are not computed. dq, dk, dv: the dtypes q, k, v may have; others f32 (f64 for f64).
struct AttentionGradients {
  OutputView<4> dq = {};       ///< [B, Sq, H, D]
  OutputView<4> dk = {};       ///< [B, Skv, Hkv, D]
  OutputView<4> dv = {};       ///< [B, Skv, Hkv, Dv]
  BroadcastOutput dbias = {};  ///< the shape of bias, reduced over its broadcast axes
  OutputView<1> dsinks = {};   ///< [H]
  OutputView<1> dslopes = {};  ///< [H], the gradient of alibi_slopes
};

/// Computes the gradients. `options` must be those given to attention_forward (options.probs is ignored).
///
/// @param gradients  overwritten; must not overlap the inputs. The last axis of dq, dk and dv must be contiguous
/// @throws ShapeError, UnsupportedError  as attention_forward, and if options.page_table is given
///
/// Cost     5*2*B*H*Sq*Skv*D flops for dq, dk and dv, which are five products; dbias repeats two of them.
/// Memory   besides the gradients 1 MB + 4 KB * (D + Dv) per thread, 4 * B * H * Sq bytes, and for dq
///          (4 * threads + 3) * 4 * (H / Hkv) * (Sq + 48) * D bytes, twice that past 32,768 keys; all twice in f64.
///          Nothing of size [Sq, Skv].
/// Threads  results are bit-identical for any number of threads and whatever else is in the batch.
/// Source   Dao et al. 2022, alg. 4; Dao 2023, alg. 2.
MULTIHEAD_API void attention_backward(const AttentionBackwardInput& input, const AttentionGradients& gradients,
                                      const AttentionOptions& options = {});

/// The result of attention_forward over a part of the keys: out [B, Sq, H, Dv] and its lse [B, H, Sq].
struct PartialAttention {
  InputView<4> out;
  InputView<3> lse;
};

/// Combines results over two disjoint sets of keys into that over their union. A set may be empty (lse = -infinity).
/// output.out and output.lse may be the buffers of `a` or `b`. Other fields of output must be absent.
/// @throws ShapeError, UnsupportedError  before anything is written
MULTIHEAD_API void attention_merge(const PartialAttention& a, const PartialAttention& b, const AttentionOutput& output,
                                   Executor* threads = nullptr);

}  // namespace multihead
