// Joins partial results over disjoint ranges of keys, in chunk order:
//
//   max = max_c max_c    sum = sum_c sum_c * e^(max_c - max)    out = sum_c acc_c * e^(max_c - max) / sum
//
// The sums over chunks are in double: there may be thousands of them.

#if defined(MULTIHEAD_KERNELS_FORWARD_COMBINE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_FORWARD_COMBINE_INL
#undef MULTIHEAD_KERNELS_FORWARD_COMBINE_INL
#else
#define MULTIHEAD_KERNELS_FORWARD_COMBINE_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/exp-inl.hpp"
#include "kernels/tile/final_row-inl.hpp"
#include "kernels/tile/lane_rows-inl.hpp"
#include "kernels/tile/probs_rows-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// e^(max_c - max) for one chunk of a row.
template <class T>
HWY_INLINE T ChunkFactor(const T* stats, T max) {
  if (stats[0] == -kInfinity<T>) return T{0};
  const Tag<T> d;
  return hn::GetLane(ExpMinus(d, hn::Set(d, stats[0]), hn::Set(d, max)));
}

template <class T>
void CombineChunks(const CombineArgs<T>& args) {
  const ForwardArgs<T>& block = args.block;
  const index_t width = block.problem.head_dim_v;
  Lanes<T> lanes;
  for (index_t r = 0; r < block.num_rows; ++r) {
    InitLanes(block.problem, block.first_row + r, 1, lanes);
    const auto stats_of = [&](index_t c) { return args.partial_stats + (c * block.num_rows + r) * kStats; };
    T max = -kInfinity<T>, seen = T{0};
    for (index_t c = 0; c < args.num_chunks; ++c) {
      const T* stats = stats_of(c);
      max = std::max(max, stats[0]);
      seen = std::max(seen, stats[2]);
    }
    double sum = 0;
    for (index_t c = 0; c < args.num_chunks; ++c) sum += double{stats_of(c)[1]} * double{ChunkFactor(stats_of(c), max)};
    const FinalRow<T> row(max, static_cast<T>(sum), seen != T{0});
    T* HWY_RESTRICT acc = block.workspace;
    constexpr index_t kFeatures = 128;
    double sums[kFeatures];
    for (index_t first = 0; first < width; first += kFeatures) {
      const index_t count = std::min(width - first, kFeatures);
      std::fill_n(sums, count, 0.0);
      for (index_t c = 0; c < args.num_chunks; ++c) {
        const double factor = ChunkFactor(stats_of(c), max);
        const T* HWY_RESTRICT part = args.partial_acc + (c * block.num_rows + r) * width + first;
        for (index_t f = 0; f < count; ++f) sums[f] += part[f] * factor;
      }
      for (index_t f = 0; f < count; ++f) acc[first + f] = static_cast<T>(sums[f]) * row.inverse;
    }
    WriteRow(block.out, lanes.query[0], lanes.head[0], acc, width);
    WriteStatistics(block, lanes.head[0], lanes.query[0], row);
    if (block.probs.data == nullptr) continue;
    for (index_t c = 0; c < args.num_chunks; ++c) {
      const index_t begin = c * args.keys_per_chunk;
      ScaleProbs(block, lanes, 0, begin, std::min(begin + args.keys_per_chunk, block.problem.seqlen_kv),
                 ChunkFactor(stats_of(c), max) * row.inverse);
    }
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
