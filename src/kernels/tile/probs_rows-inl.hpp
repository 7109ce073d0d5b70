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
#include "kernels/simd/basics-inl.hpp"
#include "kernels/tile/bias-inl.hpp"
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

/// Whether key j is visible to a lane, one pair at a time.
template <class T>
HWY_INLINE bool IsVisible(const HeadProblem<T>& s, const Lanes<T>& lanes, index_t n, index_t j) {
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
  for (index_t j = begin; j < end; ++j) row[j] = IsVisible(args.problem, lanes, n, j) ? factor : T{0};
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
