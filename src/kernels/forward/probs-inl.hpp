// Probabilities as a result: rows of a [head, query, key] plane, of which a selection may be wanted.
//
//   probs[row][key] = P[key][lane] * exp(maximum of its time - last maximum) / sum
//
// P of a query tile stays in the workspace until the factor is known, so that every number is written once.

#if defined(MULTIHEAD_KERNELS_FORWARD_PROBS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_FORWARD_PROBS_INL
#undef MULTIHEAD_KERNELS_FORWARD_PROBS_INL
#else
#define MULTIHEAD_KERNELS_FORWARD_PROBS_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/forward/block_layout-inl.hpp"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/exp-inl.hpp"
#include "kernels/simd/transpose-inl.hpp"
#include "kernels/tile/probs_rows-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
  if (args.problem.dropout_threshold == 0) return tile;
  std::copy_n(tile, kKeysPerForwardTile * kRow, layout.spare_tile());
  return layout.spare_tile();
}

/// Writes the rows of a finished query tile: its tiles of P, rescaled from the running maximum of their time to the
/// final one, times last[lane]; zero in key tiles that were never computed and for keys past the sequence.
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
  if (args.key_end >= args.problem.seqlen_kv) ClearProbs(args, lanes, args.key_end, args.probs_keys);
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
