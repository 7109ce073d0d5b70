// Gradients outside the block of a kv head: rows of dQ from the sums of all key ranges, and a tile of d(loss)/d(bias).

#if defined(MULTIHEAD_KERNELS_BACKWARD_INPUT_GRADIENTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_BACKWARD_INPUT_GRADIENTS_INL
#undef MULTIHEAD_KERNELS_BACKWARD_INPUT_GRADIENTS_INL
#else
#define MULTIHEAD_KERNELS_BACKWARD_INPUT_GRADIENTS_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/backward/backward_layout-inl.hpp"
#include "kernels/backward/score_gradient-inl.hpp"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/tile/key_tile-inl.hpp"
#include "kernels/tile/lane_rows-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A tile of sums, and its rows on their way out.
template <class T>
index_t QueryGradientWorkspace(const HeadProblem<T>& problem) {
  return (problem.head_dim + PaddedWidth<T>(problem.head_dim)) * kTileLanes<T>;
}

template <class T>
void QueryGradient(const QueryGradientArgs<T>& args) {
  const HeadProblem<T>& problem = args.problem;
  const index_t rows = problem.heads_per_kv * problem.seqlen_q, width = problem.head_dim;
  const index_t tile_size = width * kTileLanes<T>;
  T* sum = args.workspace;
  alignas(64) T factor[kMaxLanes];
  std::fill_n(factor, kMaxLanes, problem.scale);
  Lanes<T> lanes;
  for (index_t first = 0; first < rows; first += kTileLanes<T>) {
    InitLanes(problem, first, std::min(rows - first, kTileLanes<T>), lanes);
    std::copy_n(args.parts + first * width, tile_size, sum);
    for (index_t part = 1; part < args.num_parts; ++part) {
      const T* HWY_RESTRICT more = args.parts + part * args.part_size + first * width;
      for (index_t i = 0; i < tile_size; ++i) sum[i] += more[i];
    }
    WriteTile(args.dq, lanes, width, factor, sum, sum + tile_size);
  }
}

template <class T>
void BiasGradient(const BiasGradientArgs<T>& args) {
  const HeadProblem<T>& problem = args.backward.problem;
  const BackwardLayout<T> layout(args.backward);
  ScoreGradient<T> gradient(args.backward, layout);
  const PairTiles<T> pair(layout, 0, 0);
  gradient.Load(args.first_row, args.num_rows, 0, false);
  const KeyRange keys = gradient.Range(args.origin, 0, std::min(problem.seqlen_kv - args.origin, kKeysPerTile));
  if (keys.begin >= keys.end) return;
  const auto k =
      LoadTile(problem.k, problem.pages, index_t{0}, problem.head_dim, problem.copy_keys, keys, layout.keys(0));
  const auto v =
      LoadTile(problem.v, problem.pages, index_t{0}, problem.head_dim_v, problem.copy_values, keys, layout.values(0));
  const bool any = WithNumVectors(gradient.lanes.num_vectors, [&](auto count) HWY_ATTR {
    return gradient.template Compute<decltype(count)::value>(keys, k, v, pair);
  });
  if (!any) return;
  for (index_t j = keys.begin; j < keys.end; ++j) {
    for (index_t n = 0; n < args.num_rows; ++n) args.acc[j * kTileLanes<T> + n] += pair.ds[j * kTileLanes<T> + n];
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
