// A tile of query rows: which rows its lanes hold, what each may see, and its running softmax.
//
// Lanes are (head of the group, query) pairs in flattened order, so that with grouped heads a few queries still fill a
// vector: all of them read the same keys. Every statistic is one number per lane; nothing is reduced across lanes.

#if defined(MULTIHEAD_KERNELS_TILE_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILE_TILE_INL
#undef MULTIHEAD_KERNELS_TILE_TILE_INL
#else
#define MULTIHEAD_KERNELS_TILE_TILE_INL
#endif

#include <algorithm>
#include <limits>

#include "core/ceil_div.hpp"
#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/exp-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Keys of a tile of the forward. Sixteen lanes want 256: their P no longer fits the L1, but the L2 is quick enough,
/// and sums are loaded, rescaled and stored half as often.
inline constexpr index_t kKeysPerForwardTile = HWY_TARGET <= HWY_AVX3 ? 2 * kKeysPerTile : kKeysPerTile;

/// Key tiles whose sums are added up before they go to the second level of long sums.
inline constexpr index_t kTilesPerFold = 64;
inline constexpr index_t kKeysPerFold = kTilesPerFold * kKeysPerForwardTile;

/// Keys [begin, end) of a key tile for one query tile, relative to the tile's first key `origin`.
struct KeyRange {
  index_t origin, begin, end;
};

/// The rows of a tile. Key j is inside lane n's interval when begin[n] <= j < end[n]: causal, window and lengths.
template <class T>
struct Lanes {
  index_t num_rows = 0;  // lanes in use
  int num_vectors = 0;   // vectors computed: the used lanes rounded up
  index_t query[kMaxLanes];
  index_t group_head[kMaxLanes];  // index into HeadProblem::heads
  index_t head[kMaxLanes];        // query head
  index_t begin[kMaxLanes], end[kMaxLanes];
  index_t first_begin = 0, last_begin = 0;  // smallest and largest of begin
  index_t first_end = 0, last_end = 0;
};

/// How the rows of a group are counted: head by head; or, where a rule hides keys, query by query, so that the lanes of
/// a tile see nearly the same keys.
template <class T>
HWY_INLINE bool QueryByQuery(const HeadProblem<T>& problem) {
  return problem.heads_per_kv > 1 && problem.banded;
}
/// Queries [begin, end) that rows [first_row, first_row + num_rows) belong to, at least those of the first head.
struct QueryRange {
  index_t group_head, begin, end;
};
template <class T>
HWY_INLINE QueryRange QueriesOf(const HeadProblem<T>& problem, index_t first_row, index_t num_rows) {
  if (QueryByQuery(problem)) {
    return {first_row % problem.heads_per_kv, first_row / problem.heads_per_kv,
            ceil_div(first_row + num_rows, problem.heads_per_kv)};
  }
  const index_t query = first_row % problem.seqlen_q;
  return {first_row / problem.seqlen_q, query, std::min(query + num_rows, problem.seqlen_q)};
}

template <class T>
HWY_INLINE void InitLanes(const HeadProblem<T>& problem, index_t first_row, index_t num_rows, Lanes<T>& lanes,
                          bool by_query) {
  lanes.num_rows = num_rows;
  lanes.num_vectors = static_cast<int>(ceil_div(num_rows, kVectorLanes<T>));
  if (by_query) {
    index_t query = first_row / problem.heads_per_kv, group_head = first_row % problem.heads_per_kv;
    for (index_t n = 0; n < num_rows; ++n) {
      lanes.query[n] = query;
      lanes.group_head[n] = group_head;
      lanes.head[n] = problem.heads[group_head];
      if (++group_head == problem.heads_per_kv) group_head = 0, ++query;
    }
  } else {
    index_t group_head = first_row / problem.seqlen_q, query = first_row % problem.seqlen_q;
    for (index_t n = 0; n < num_rows; ++group_head, query = 0) {
      const index_t end = std::min(num_rows, n + problem.seqlen_q - query), head = problem.heads[group_head];
      for (; n < end; ++n, ++query) {
        lanes.query[n] = query;
        lanes.group_head[n] = group_head;
        lanes.head[n] = head;
      }
    }
  }
  if (!problem.banded) {
    std::fill_n(lanes.begin, num_rows, index_t{0});
    std::fill_n(lanes.end, num_rows, problem.seqlen_kv);
    lanes.first_begin = lanes.last_begin = 0;
    lanes.first_end = lanes.last_end = problem.seqlen_kv;
    return;
  }
  lanes.first_begin = lanes.first_end = std::numeric_limits<index_t>::max();
  lanes.last_begin = lanes.last_end = 0;
  for (index_t n = 0; n < num_rows; ++n) {
    const index_t begin = std::clamp<index_t>(lanes.query[n] + problem.band_begin, 0, problem.seqlen_kv);
    const index_t end = std::clamp<index_t>(lanes.query[n] + problem.band_end, begin, problem.seqlen_kv);
    lanes.begin[n] = begin;
    lanes.end[n] = end;
    lanes.first_begin = std::min(lanes.first_begin, begin);
    lanes.last_begin = std::max(lanes.last_begin, begin);
    lanes.first_end = std::min(lanes.first_end, end);
    lanes.last_end = std::max(lanes.last_end, end);
  }
}

template <class T>
HWY_INLINE void InitLanes(const HeadProblem<T>& problem, index_t first_row, index_t num_rows, Lanes<T>& lanes) {
  InitLanes(problem, first_row, num_rows, lanes, QueryByQuery(problem));
}

/// Fills values[lane] for all lanes computed; unused ones get `rest`.
template <class T, class Fn>
HWY_INLINE void FillLanes(const Lanes<T>& lanes, T* values, T rest, const Fn& value_of) {
  for (index_t n = 0; n < lanes.num_rows; ++n) values[n] = value_of(n);
  for (index_t n = lanes.num_rows; n < lanes.num_vectors * kVectorLanes<T>; ++n) values[n] = rest;
}

/// Running softmax of a tile (docs/algorithm.md, (6)), one number per lane, in arrays of kTileLanes.
template <class T>
struct RunningSoftmax {
  T* max;    // largest visible score or sink; -infinity so far none
  T* shift;  // what scores are taken relative to: max, 0 while that is -infinity
  T* sum;    // of exp(s - shift)
  T* seen;   // 1 once a visible key was seen

  static constexpr index_t kSize = 4 * kTileLanes<T>;
  HWY_INLINE explicit RunningSoftmax(T* storage)
      : max(storage),
        shift(storage + kTileLanes<T>),
        sum(storage + 2 * kTileLanes<T>),
        seen(storage + 3 * kTileLanes<T>) {}

  /// Empty rows, or rows that hold their sink.
  HWY_INLINE void Init(const HeadProblem<T>& problem, const Lanes<T>& lanes, bool with_sinks) {
    for (index_t n = 0; n < kTileLanes<T>; ++n) {
      max[n] = -kInfinity<T>;
      shift[n] = sum[n] = seen[n] = T{0};
    }
    if (problem.sinks == nullptr || !with_sinks) return;
    for (index_t n = 0; n < lanes.num_rows; ++n) {
      const T sink = problem.sinks[lanes.head[n] * problem.sinks_stride];
      if (sink == -kInfinity<T>) continue;
      sum[n] = std::isfinite(sink) ? T{1} : std::numeric_limits<T>::quiet_NaN();
      if (!std::isnan(sink)) max[n] = shift[n] = sink;
    }
  }

  /// Takes in the largest scores of a key tile: m' and f of (6). Afterwards factor[lane] converts sums over earlier
  /// keys to the new maximum; false when all factors are 1.
  HWY_INLINE bool Raise(const T* HWY_RESTRICT tile_max, int num_vectors, T* HWY_RESTRICT factor) {
    const Tag<T> d;
    const auto none = hn::Set(d, -kInfinity<T>);
    bool moved = false;
    for (int v = 0; v < num_vectors; ++v) {
      const index_t n = v * kVectorLanes<T>;
      const auto old_max = hn::LoadU(d, max + n);
      const auto new_max = hn::Max(hn::LoadU(d, tile_max + n), old_max);
      const auto unmoved = hn::Eq(new_max, old_max);
      if (hn::AllTrue(d, unmoved)) {
        hn::StoreU(hn::Set(d, T{1}), d, factor + n);
        continue;
      }
      moved = true;
      const auto keep = hn::Or(unmoved, hn::Eq(old_max, none));  // nothing to rescale
      const auto new_shift = hn::IfThenZeroElse(hn::Eq(new_max, none), new_max);
      const auto scale = hn::IfThenElse(keep, hn::Set(d, T{1}), ExpMinus(d, old_max, new_shift));
      hn::StoreU(scale, d, factor + n);
      hn::StoreU(new_max, d, max + n);
      hn::StoreU(new_shift, d, shift + n);
      hn::StoreU(hn::Mul(hn::LoadU(d, sum + n), scale), d, sum + n);
    }
    return moved;
  }
};

/// Where the first vectors of a tile stop to see keys: vectors v >= s alone are needed for keys [at[s], at[s + 1]).
struct Cuts {
  index_t at[kNumVectors + 1];
};

template <int S, int NV, class T, class V>
HWY_INLINE void ExponentiateFrom(const Cuts& cuts, T* HWY_RESTRICT tile, const V (&shift)[NV], V (&sum)[NV]) {
  const Tag<T> d;
  for (index_t j = cuts.at[S]; j < cuts.at[S + 1]; ++j) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      T* HWY_RESTRICT at = tile + j * kTileLanes<T> + v * kVectorLanes<T>;
      if (v < S) {
        hn::StoreU(hn::Zero(d), d, at);
        continue;
      }
      const auto p = ExpMinus(d, hn::LoadU(d, at), shift[v]);
      sum[v] = hn::Add(sum[v], p);
      hn::StoreU(p, d, at);
    }
  }
  if constexpr (S + 1 < NV) ExponentiateFrom<S + 1>(cuts, tile, shift, sum);
}

/// P = exp(S - max) in place, 0 for what is cut off; adds to sum: l' of (6).
template <int NV, class T>
HWY_INLINE void Exponentiate(const Cuts& cuts, T* HWY_RESTRICT tile, const RunningSoftmax<T>& softmax) {
  const Tag<T> d;
  hn::Vec<Tag<T>> shift[NV], sum[NV];
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) {
    shift[v] = hn::LoadU(d, softmax.shift + v * kVectorLanes<T>);
    sum[v] = hn::Zero(d);
  }
  ExponentiateFrom<0>(cuts, tile, shift, sum);
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) {
    T* total = softmax.sum + v * kVectorLanes<T>;
    hn::StoreU(hn::Add(hn::LoadU(d, total), sum[v]), d, total);
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
