// Rows of probabilities in memory: which of them are wanted, cleared, and scaled.

#if defined(MULTIHEAD_KERNELS_TILE_PROBS_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILE_PROBS_ROWS_INL
#undef MULTIHEAD_KERNELS_TILE_PROBS_ROWS_INL
#else
#define MULTIHEAD_KERNELS_TILE_PROBS_ROWS_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/tile/bias_tile-inl.hpp"
#include "kernels/tile/row_scores-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

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
  T bias[kKeysPerForwardTile];
  for (index_t origin = begin; origin < end; origin += kKeysPerForwardTile) {
    const KeyRange keys{origin, 0, std::min(end - origin, kKeysPerForwardTile)};
    const RowOfScores<T> scores(args.problem, lanes, n, keys, HasBiasTile(args.problem) ? bias : nullptr);
    for (index_t j = 0; j < keys.end; ++j) row[origin + j] = scores.Sees(j) ? factor : T{0};
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
