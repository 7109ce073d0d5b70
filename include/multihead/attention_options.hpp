// What attention can be told beyond q, k and v. Every option composes with every other, on one path, forward and
// backward; none is dropped because another is set.
//
//   order: scale, softcap, additive bias and ALiBi, mask, softmax (with sinks), dropout, times v
//
// One diagonal: query i of sequence b stands at key position i + offset_b. Causal, window and ALiBi all speak of it.
#pragma once

#include <cstdint>
#include <optional>

#include "multihead/broadcast_view.hpp"
#include "multihead/threads.hpp"

namespace multihead {

/// Which diagonal the causal rule uses: key j is visible to query i when j <= i + offset_b.
enum class Causal : std::uint8_t {
  off,
  top_left,      ///< offset_b = 0
  bottom_right,  ///< offset_b = keys of the sequence - queries of the sequence (valid lengths where given)
  at_offset,     ///< offset_b = Mask::diagonal_offset[b]
};

/// Keys visible to a query. Rules combine by intersection. A query that sees no key gets a zero row of `out`,
/// lse = -infinity and zero gradients, never NaN. The content of a hidden slot is never read into a result.
struct Mask {
  Causal causal = Causal::off;
  /// Key j is visible when i + offset_b - left <= j <= i + offset_b + right. Unset = open. 0 or more.
  /// With causal off, offset_b is `diagonal_offset` if given, else that of bottom_right.
  std::optional<index_t> window_left = {};
  std::optional<index_t> window_right = {};
  /// [B] explicit offsets, any 64-bit number, never clamped. For Causal::at_offset and, with causal off, window and
  /// ALiBi.
  TensorView<const index_t, 1> diagonal_offset = {};
  /// [B] queries and keys that are present; rows and keys from there on are not. Unset = all.
  TensorView<const index_t, 1> seqlen_q = {};
  TensorView<const index_t, 1> seqlen_kv = {};
  /// bool, broadcast to [B, H, Sq, Skv]: true = the key is visible.
  BroadcastView visible = {};
};

/// Dropout on the normalised probs; kept ones are scaled by 1/(1-p). What is kept is a pure function of
/// (seed, sequence id, h, i, j): see dropout_keeps().
struct Dropout {
  double probability = 0.0;  ///< in [0, 1]; 1 drops everything
  std::uint64_t seed = 0;
  TensorView<const index_t, 1> sequence_ids = {};  ///< [B], each in [0, 2^32); unset = b
};

/// Packed variable lengths: all sequences one after the other. q is [1, total_q, H, D], k and v are
/// [1, total_kv, Hkv, D or Dv]; sequence b owns tokens [cu[b], cu[b+1]). bias, mask and probs are in local
/// coordinates [B, H, max_q, max_kv]; row_max, row_sum and lse are [1, H, total_q].
/// The last offset must equal the number of tokens.
struct Packed {
  TensorView<const index_t, 1> cu_seqlens_q = {};   ///< [B+1]
  TensorView<const index_t, 1> cu_seqlens_kv = {};  ///< [B+1]
};

/// Which part of the probabilities is returned; unset = all heads, all rows.
struct ProbsSelection {
  TensorView<const index_t, 1> heads = {};  ///< query heads, distinct
  TensorView<const index_t, 1> rows = {};   ///< queries i, distinct
};

struct AttentionOptions {
  /// Finite; unset = 1/sqrt(D). With f64 any; else 0 or of a size that f32 holds, 1.18e-38 to 3.40e38.
  std::optional<double> scale = {};
  /// c > 0: scores become c*tanh(scores/c); unset = off. The same sizes as for scale.
  std::optional<double> softcap = {};
  /// Broadcast to [B, H, Sq, Skv], added; -inf hides the key. f32, bf16 or f16, whatever q is, read as it lies; f64
  /// with f64. Its gradient is f32 (f64 with f64).
  BroadcastView bias = {};
  /// [H] f32 (f64 with f64): adds -slope_h * abs(i + offset_b - j). Distances are at most 2^24 (2^53 with f64), so that
  /// the arithmetic counts them exactly, and their products with finite slopes must be finite.
  InputView<1> alibi_slopes = {};
  /// [H] f32 (f64 with f64). A sink is one more key of its head that every query sees: it takes part in the softmax
  /// with this score and has no value. A row of probs then sums to 1 - exp(sink - lse), which is what the sink took;
  /// lse includes it. So a head can look at nothing. -inf = no sink. The score is not scaled, capped or masked.
  InputView<1> sinks = {};
  Mask mask = {};
  Dropout dropout = {};
  TensorView<const index_t, 1> kv_head_of = {};  ///< [H] the kv head of each query head; unset = h / (H / Hkv)
  Packed packed = {};
  /// [B, pages] paged keys and values: k and v are pages [num_pages, page_size, Hkv, D or Dv], and key j of sequence
  /// b is row j % page_size of page page_table[b, j / page_size]. Needs mask.seqlen_kv; entries past it are not read.
  TensorView<const index_t, 2> page_table = {};
  ProbsSelection probs = {};
  Executor* threads = nullptr;  ///< null = the calling thread. The result is the same bits for any.
};

/// Whether dropout keeps element (h, i, j) of the sequence with this id; i and j are local to their sequence.
/// Philox4x32-10 (Salmon et al. 2011): key = seed, counter = (j / 4, i, h, sequence_id), word j % 4.
MULTIHEAD_API bool dropout_keeps(double probability, std::uint64_t seed, index_t sequence_id, index_t h, index_t i,
                                 index_t j);

/// The usual ALiBi slopes (Press et al. 2022), right for any number of heads: 2^(-8(n+1)/m) for the first m = the
/// largest power of two <= num_heads, then every other slope of 2m heads. Writes slopes[num_heads].
/// @throws ShapeError  if slopes is empty
MULTIHEAD_API void alibi_slopes(TensorView<float, 1> slopes);

}  // namespace multihead
