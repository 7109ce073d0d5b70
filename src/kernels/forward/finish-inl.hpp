// The end of a query tile: its rows of out, statistics and probabilities, or its state where keys are split.

#if defined(MULTIHEAD_KERNELS_FORWARD_FINISH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_FORWARD_FINISH_INL
#undef MULTIHEAD_KERNELS_FORWARD_FINISH_INL
#else
#define MULTIHEAD_KERNELS_FORWARD_FINISH_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/forward/block_layout-inl.hpp"
#include "kernels/forward/probs-inl.hpp"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/transpose-inl.hpp"
#include "kernels/tile/final_row-inl.hpp"
#include "kernels/tile/lane_rows-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Ends a query tile: writes its rows, or hands its state over when keys are split.
template <class T>
HWY_NOINLINE void FinishTile(const ForwardArgs<T>& args, const BlockLayout<T>& layout, const Lanes<T>& lanes,
                             index_t t) {
  const RunningSoftmax<T> softmax(layout.softmax(t));
  alignas(64) T factor[kMaxLanes];
  if (args.partial_acc != nullptr) {
    std::fill_n(factor, kMaxLanes, T{1});
    if (args.probs.data != nullptr) FinishProbs(args, layout, lanes, t, factor);
    T* row_of[kMaxLanes];
    const index_t first = layout.first_row(t);
    for (index_t n = 0; n < lanes.num_rows; ++n) {
      row_of[n] = args.partial_acc + (first + n) * args.problem.head_dim_v;
      T* stats = args.partial_stats + (first + n) * kStats;
      stats[0] = softmax.max[n];
      stats[1] = softmax.sum[n];
      stats[2] = softmax.seen[n];
    }
    TileToRows(layout.acc(t), kTileLanes<T>, lanes.num_rows, args.problem.head_dim_v, Unscaled(), row_of);
    return;
  }
  const Tag<T> d;
  for (index_t n = 0; n < lanes.num_vectors * kVectorLanes<T>; n += kVectorLanes<T>) {
    const auto max = hn::LoadU(d, softmax.max + n), sum = hn::LoadU(d, softmax.sum + n);
    hn::StoreU(InverseSums(d, max, sum, hn::LoadU(d, softmax.seen + n)), d, factor + n);
  }
  if (args.row_max.data != nullptr || args.row_sum.data != nullptr || args.lse.data != nullptr) {
    for (index_t n = 0; n < lanes.num_rows; ++n) {
      const FinalRow<T> row(softmax.max[n], softmax.sum[n], softmax.seen[n] != T{0});
      WriteStatistics(args, lanes.head[n], lanes.query[n], row);
    }
  }
  if (args.probs.data != nullptr) FinishProbs(args, layout, lanes, t, factor);
  WriteTile(args.out, lanes, args.problem.head_dim_v, factor, layout.acc(t), layout.rows);
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
