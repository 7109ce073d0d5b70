// Options of attention_forward and attention_backward. Every option can be combined with every other one, forward and
// backward, on the same code path: no option is ignored, and no slower path taken, because another one is set.
//
//   order: scale, softcap, additive bias and ALiBi, mask, softmax (with sinks), dropout, times v
//
// Query i of sequence b has the key position i + offset_b. Causal masks, windows and ALiBi all use this position.
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

/// Which keys a query sees: those that all rules let it see. A query that sees no key gets a zero row of `out`,
/// lse = -infinity and zero gradients, never NaN. The content of a hidden key or value never affects a result.
struct Mask {
  Causal causal = Causal::off;
  /// Key j is visible when i + offset_b - left <= j <= i + offset_b + right. Unset = no limit; otherwise 0 or more.
  /// With Causal::off, offset_b is `diagonal_offset` if given, otherwise that of Causal::bottom_right.
  std::optional<index_t> window_left = {};
  std::optional<index_t> window_right = {};
  /// [B] explicit offsets, any 64-bit numbers, never clamped. Used by Causal::at_offset and, with Causal::off, by
  /// windows and ALiBi.
  TensorView<const index_t, 1> diagonal_offset = {};
  /// [B] number of valid queries and keys of each sequence; those after them are padding. Unset = all are valid.
  /// Lists, here and in the other options, are of index_t. Of another type they are copied:
  /// `std::vector<index_t> seqlens(list.begin(), list.end())`.
  TensorView<const index_t, 1> seqlen_q = {};
  TensorView<const index_t, 1> seqlen_kv = {};
  /// bool, broadcast to [B, H, Sq, Skv]: true = the key is visible.
  BroadcastView visible = {};
};

/// Dropout on the normalised probs; those kept are scaled by 1/(1-p). Which ones are kept is a pure function of
/// (seed, sequence id, h, i, j): see dropout_keeps().
struct Dropout {
  double probability = 0.0;  ///< in [0, 1]; 1 drops everything
  std::uint64_t seed = 0;
  TensorView<const index_t, 1> sequence_ids = {};  ///< [B], each in [0, 2^32); unset = b
};

/// Sequences of different lengths stored one after the other without padding. q is [1, total_q, H, D], k and v are
/// [1, total_kv, Hkv, D or Dv]; sequence b consists of tokens [cu[b], cu[b+1]). bias, mask and probs are indexed
/// within a sequence, [B, H, max_q, max_kv]; row_max, row_sum and lse are [1, H, total_q].
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
  /// Finite; unset = 1/sqrt(D). Any for f64 input, otherwise 0 or an absolute value from 1.18e-38 to 3.40e38.
  std::optional<double> scale = {};
  /// c > 0: scores become c*tanh(scores/c); unset = off. The same range as for scale.
  std::optional<double> softcap = {};
  /// Broadcast to [B, H, Sq, Skv] and added; -inf hides the key. f32, bf16 or f16 whatever the dtype of q, read in
  /// place without a copy; f64 for f64 input. Its gradient is f32 (f64 for f64 input).
  BroadcastView bias = {};
  /// [H] f32 (f64 for f64 input): adds -slope_h * abs(i + offset_b - j). Distances may be at most 2^24 (f64: 2^53), so
  /// that they are exact in the arithmetic, and their products with finite slopes must be finite.
  InputView<1> alibi_slopes = {};
  /// [H] f32 (f64 for f64 input). A sink is an additional key of its head that every query sees: it takes part in the
  /// softmax with this score, but has no value. lse includes it, and a row of probs sums to 1 - exp(sink - lse): a head
  /// can thus attend to no token. -inf = no sink. The score is used as given: not scaled, capped or masked.
  InputView<1> sinks = {};
  Mask mask = {};
  Dropout dropout = {};
  TensorView<const index_t, 1> kv_head_of = {};  ///< [H] the kv head of each query head; unset = h / (H / Hkv)
  Packed packed = {};
  /// [B, pages] for paged keys and values: k and v are [num_pages, page_size, Hkv, D or Dv], and key j of sequence b is
  /// row j % page_size of page page_table[b, j / page_size]. Needs mask.seqlen_kv; entries past it are not read.
  TensorView<const index_t, 2> page_table = {};
  ProbsSelection probs = {};
  Executor* threads = nullptr;  ///< null = the calling thread; results are bit-identical for any
};

/// Whether dropout keeps element (h, i, j) of the sequence with this id; i and j are local to their sequence.
/// Philox4x32-10 (Salmon et al. 2011): key = seed, counter = (j / 4, i, h, sequence_id), output word j % 4.
MULTIHEAD_API bool dropout_keeps(double probability, std::uint64_t seed, index_t sequence_id, index_t h, index_t i,
                                 index_t j);

/// The usual ALiBi slopes (Press et al. 2022) for any number of heads, written to slopes[num_heads]. With m the largest
/// power of two <= num_heads: 2^(-8(n+1)/m) for head n < m, then every other one of the slopes for 2m heads.
/// @throws ShapeError  if slopes is empty
MULTIHEAD_API void alibi_slopes(TensorView<float, 1> slopes);

}  // namespace multihead
