// Probabilities as a result: rows of a [head, query, key] plane, of which a selection may be wanted.
//
//   probs[row][key] = P[key][lane] * exp(maximum of its time - last maximum) / sum
//
// P of a query tile stays in the workspace until the factor is known, so that every number is written once.

#if defined(MULTIHEAD_KERNELS_PROBS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_PROBS_INL
#undef MULTIHEAD_KERNELS_PROBS_INL
#else
#define MULTIHEAD_KERNELS_PROBS_INL
#endif

#include "hwy/highway.h"
#include "kernels/block_layout-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The row of probs that belongs to a lane, or nullptr when it was not asked for.
template <class T>
HWY_INLINE T* ProbsRow(const ForwardArgs<T>& args, const Lanes<T>& lanes, index_t n) {
  const index_t head = args.probs_head == nullptr ? lanes.head[n] : args.probs_head[lanes.head[n]];
  const index_t query = args.probs_query == nullptr ? lanes.query[n] : args.probs_query[lanes.query[n]];
  if (head < 0 || query < 0) return nullptr;
  return args.probs.data + head * args.probs.head_stride + query * args.probs.query_stride;
}

/// Zeroes keys [begin, end) of the rows of probs.
template <class T>
HWY_INLINE void ClearProbs(const ForwardArgs<T>& args, const Lanes<T>& lanes, index_t begin, index_t end) {
  if (begin >= end) return;
  for (index_t n = 0; n < lanes.num_rows; ++n) {
    if (T* row = ProbsRow(args, lanes, n)) std::fill(row + begin, row + end, T{0});
  }
}

/// Whether key j is visible to a lane, one pair at a time.
template <class T>
HWY_INLINE bool IsVisible(const Scores<T>& s, const Lanes<T>& lanes, index_t n, index_t j) {
  if (j < lanes.begin[n] || j >= lanes.end[n]) return false;
  const index_t head = lanes.head[n], query = lanes.query[n];
  if (s.visible.data != nullptr &&
      !s.visible.data[head * s.visible.head_stride + query * s.visible.query_stride + j * s.visible.key_stride]) {
    return false;
  }
  return s.bias.data == nullptr || BiasAt(s, head, query, j) != -kInfinity<T>;
}

/// Multiplies keys [begin, end) of a row of probs; a NaN factor reaches visible keys only.
template <class T>
HWY_INLINE void ScaleProbs(const ForwardArgs<T>& args, const Lanes<T>& lanes, index_t n, index_t begin, index_t end,
                           T factor) {
  T* row = ProbsRow(args, lanes, n);
  if (row == nullptr) return;
  if (factor == factor) {
    for (index_t j = begin; j < end; ++j) row[j] *= factor;
    return;
  }
  for (index_t j = begin; j < end; ++j) row[j] = IsVisible(args.scores, lanes, n, j) ? factor : T{0};
}

/// Leaves P of a pair of tiles behind, zero where its keys are not in `keys`. Returns the P to go on with: a copy when
/// dropout will change it.
template <class T>
HWY_NOINLINE T* KeepProbs(const ForwardArgs<T>& args, const BlockLayout<T>& layout, index_t t, const KeyRange& keys) {
  constexpr index_t kRow = kTileLanes<T>;
  const index_t key_tile = keys.origin / kKeysPerForwardTile;
  T* const tile = layout.tile(t, key_tile);
  std::fill(tile, tile + keys.begin * kRow, T{0});
  std::fill(tile + keys.end * kRow, tile + kKeysPerForwardTile * kRow, T{0});
  std::copy_n(RunningSoftmax<T>(layout.softmax(t)).shift, kRow, layout.history(t, key_tile));
  if (args.scores.dropout_threshold == 0) return tile;
  std::copy_n(tile, kKeysPerForwardTile * kRow, layout.spare_tile());
  return layout.spare_tile();
}

/// Writes the rows of a finished query tile: its tiles of P, brought from the maximum of their time to the last one,
/// times last[lane]; zero in key tiles that were never computed and for keys past the sequence.
template <class T>
HWY_NOINLINE void FinishProbs(const ForwardArgs<T>& args, const BlockLayout<T>& layout, const Lanes<T>& lanes,
                              index_t t, const T* last) {
  const Tag<T> d;
  const RunningSoftmax<T> softmax(layout.softmax(t));
  T *row[kMaxLanes], *at[kMaxLanes];
  for (index_t n = 0; n < lanes.num_rows; ++n) row[n] = ProbsRow(args, lanes, n);
  for (index_t kt = layout.first_key_tile; kt < layout.first_key_tile + layout.num_key_tiles; ++kt) {
    const index_t begin = kt * kKeysPerForwardTile, end = std::min(begin + kKeysPerForwardTile, args.key_end);
    T* const factor = layout.history(t, kt);
    if (factor[0] == -kInfinity<T>) {
      ClearProbs(args, lanes, begin, end);
      continue;
    }
    for (index_t n = 0; n < lanes.num_vectors * kVectorLanes<T>; n += kVectorLanes<T>) {
      // A lane that had seen no key then stands at 0, perhaps above its maximum of now; its P is 0.
      const auto shift = hn::LoadU(d, softmax.shift + n);
      const auto change = ExpMinus(d, hn::Min(hn::LoadU(d, factor + n), shift), shift);
      hn::StoreU(hn::Mul(change, hn::LoadU(d, last + n)), d, factor + n);
    }
    for (index_t n = 0; n < lanes.num_rows; ++n) at[n] = row[n] == nullptr ? nullptr : row[n] + begin;
    TileToRows(layout.tile(t, kt), kTileLanes<T>, lanes.num_rows, end - begin, LaneFactors<T>{factor}, at);
    for (index_t n = 0; n < lanes.num_rows; ++n) {
      if (factor[n] != factor[n]) ScaleProbs(args, lanes, n, begin, end, factor[n]);
    }
    factor[0] = -kInfinity<T>;  // its place is another query tile's
  }
  if (args.key_end >= args.scores.seqlen_kv) ClearProbs(args, lanes, args.key_end, args.probs_keys);
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
