// Backward: the gradients of one kv head's keys and values, and their share of the queries' gradients.
//
//   per key tile, per query tile (docs/algorithm.md, section 3):
//     P, dS            score_gradient-inl.hpp
//     dV[key][:]  += P dO         dK[key][:] += dS Q         dQ[feature][lane] += K^T dS        (10), (13)
//
// All five products are MicroKernel. Key tiles are outer, a few of them in a pass over the queries: dK and dV stay in
// the cache and are written once; dQ is added to in key order, so its bits do not depend on threads.
//
// Long sums are blocked. dK and dV: a round of up to kTilesPerRun query tiles is summed from zero and added as a whole;
// after every kRowsPerFold rows the result goes to outer sums. What a round is follows from the mask alone. Whether it
// is one product or several (rows that do not follow one another in memory, or that hold NaN) never changes its bits.
// dQ: each key tile is summed from zero; after every kKeysPerDqFold keys the sums go to outer ones.

#if defined(MULTIHEAD_KERNELS_BACKWARD_BACKWARD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_BACKWARD_BACKWARD_INL
#undef MULTIHEAD_KERNELS_BACKWARD_BACKWARD_INL
#else
#define MULTIHEAD_KERNELS_BACKWARD_BACKWARD_INL
#endif

#include <algorithm>

#include "core/ceil_div.hpp"
#include "hwy/highway.h"
#include "kernels/backward/add_rows-inl.hpp"
#include "kernels/backward/backward_layout-inl.hpp"
#include "kernels/backward/score_gradient-inl.hpp"
#include "kernels/kernels.hpp"
#include "kernels/product/micro_kernel-inl.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/tile/finite-inl.hpp"
#include "kernels/tile/key_tile-inl.hpp"
#include "kernels/tile/lane_rows-inl.hpp"
#include "kernels/tile/scores-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A key tile of a pass, the round of query tiles whose sums with it are due, and the last run of the round: tiles
/// whose rows follow one another, for one product. What came before the run in its round is summed in the layout
/// (has_sums).
template <class T>
struct PassTile {
  KeyRange all;  // its keys
  TileRows<T> k_rows, v_rows;
  bool keys_finite;
  KeyRange round_keys;
  index_t round_end;  // the slot that would go on with the round
  bool has_sums;
  index_t run_begin, run_size;  // slots
  TileRows<T> run_queries, run_douts;
};

template <class T>
struct BackwardBlock {
  const BackwardArgs<T>& args;
  const HeadProblem<T>& problem;
  const BackwardLayout<T> layout;
  ScoreGradient<T> gradient;
  PassTile<T> pass[kTilesPerPass];

  HWY_INLINE explicit BackwardBlock(const BackwardArgs<T>& a)
      : args(a), problem(a.problem), layout(a), gradient(a, layout) {}

  HWY_INLINE void Run() {
    const index_t rows = problem.heads_per_kv * problem.seqlen_q;
    const index_t dq_size = round_up(rows, kTileLanes<T>) * problem.head_dim;
    if (args.dq != nullptr) std::fill_n(args.dq, dq_size, T{0});
    if (args.dq_outer != nullptr) std::fill_n(args.dq_outer, dq_size, T{0});
    for (index_t begin = args.key_begin; begin < args.key_end; begin += kTilesPerPass * kKeysPerTile) {
      const index_t end = std::min(args.key_end, begin + kTilesPerPass * kKeysPerTile);
      const index_t num_tiles = ceil_div(end - begin, kKeysPerTile);
      for (index_t p = 0; p < num_tiles; ++p) Begin(p, begin + p * kKeysPerTile);
      index_t slot = 0, folded = 0;
      for (index_t first = 0; first < rows; first += kTileLanes<T>) {
        const index_t num_rows = std::min(rows - first, kTileLanes<T>);
        if (Skip(first, num_rows, begin, end)) continue;
        gradient.Load(first, num_rows, slot, QueryByQuery(problem));
        gradient.Prefetch(first + num_rows, std::min(rows - first - num_rows, kTileLanes<T>));
        for (index_t p = 0; p < num_tiles; ++p) Pair(p, slot, first);
        if (++slot < kTilesPerRun) continue;
        for (index_t p = 0; p < num_tiles; ++p) EndRound(p, kTileLanes<T>);
        slot = 0;
        if (first - folded < kRowsPerFold) continue;
        for (index_t p = 0; p < num_tiles; ++p) Fold(p);
        folded = first;
      }
      for (index_t p = 0; p < num_tiles; ++p) End(p);
      if (args.dq_outer != nullptr && (end - args.key_begin) % kKeysPerDqFold == 0) {
        FoldArray(args.dq, dq_size, args.dq_outer);
      }
    }
    if (args.dq_outer != nullptr) AddArray(args.dq_outer, dq_size, args.dq);
  }

  HWY_INLINE void Begin(index_t p, index_t origin) {
    PassTile<T>& tile = pass[p];
    tile.all = {origin, 0, std::min(args.key_end - origin, kKeysPerTile)};
    tile.k_rows = LoadTile(problem.k, problem.pages, problem.pages.k_page_stride, problem.head_dim, problem.copy_keys,
                           tile.all, layout.keys(p));
    tile.v_rows = LoadTile(problem.v, problem.pages, problem.pages.v_page_stride, problem.head_dim_v,
                           problem.copy_values, tile.all, layout.values(p));
    tile.keys_finite = AllFinite<T>(tile.k_rows, 0, tile.all.end, problem.head_dim);
    tile.round_end = -1;
    tile.has_sums = false;
    tile.run_size = 0;
    ClearSums(layout.dk(p), layout.dv(p));
    if (layout.is_long) ClearSums(layout.outer_dk(p), layout.outer_dv(p));
  }

  HWY_INLINE void ClearSums(T* dk, T* dv) const {
    std::fill_n(dk, kKeysPerTile * layout.width, T{0});
    std::fill_n(dv, kKeysPerTile * layout.width_v, T{0});
  }

  HWY_INLINE void Fold(index_t p) const {
    FoldArray(layout.dk(p), kKeysPerTile * layout.width, layout.outer_dk(p));
    FoldArray(layout.dv(p), kKeysPerTile * layout.width_v, layout.outer_dv(p));
  }

  HWY_INLINE void End(index_t p) {
    EndRound(p, kTileLanes<T>);
    if (layout.is_long) {
      AddArray(layout.outer_dk(p), kKeysPerTile * layout.width, layout.dk(p));
      AddArray(layout.outer_dv(p), kKeysPerTile * layout.width_v, layout.dv(p));
    }
    const KeyRange& all = pass[p].all;
    Write(args.dk, all.origin, all.end, problem.head_dim, problem.scale, layout.dk(p));
    Write(args.dv, all.origin, all.end, problem.head_dim_v, T{1}, layout.dv(p));
  }

  /// Whether the rows surely see nothing of keys [begin, end): before anything is loaded.
  HWY_INLINE bool Skip(index_t first, index_t num_rows, index_t begin, index_t end) const {
    const QueryRange queries = QueriesOf(problem, first, num_rows);
    if (!QueryByQuery(problem) && queries.end - queries.begin < num_rows) return false;  // rows of two heads
    return problem.banded && (queries.begin + problem.band_begin >= end || queries.end - 1 + problem.band_end <= begin);
  }

  HWY_INLINE void Pair(index_t p, index_t slot, index_t first) {
    const KeyRange keys = gradient.Range(pass[p].all.origin, 0, pass[p].all.end);
    if (keys.begin >= keys.end) return;
    WithNumVectors(gradient.lanes.num_vectors,
                   [&](auto count) HWY_ATTR { Tile<decltype(count)::value>(p, slot, first, keys); });
  }

  template <int NV>
  HWY_NOINLINE void Tile(index_t p, index_t slot, index_t first, const KeyRange& keys) {
    constexpr index_t kRow = kTileLanes<T>;
    PassTile<T>& tile = pass[p];
    const PairTiles<T> pair(layout, p, slot);
    const TileRows<T>& k_rows = tile.k_rows;
    if (!gradient.template Compute<NV>(keys, k_rows, tile.v_rows, pair)) return;
    const bool all_visible = gradient.AllVisible(keys);
    gradient.Uncap(keys, pair);
    const index_t num_rows = gradient.lanes.num_rows;
    GoOn(p, slot, keys);
    if (all_visible || (Finite(gradient.q_rows, problem.head_dim) && Finite(gradient.dout_rows, problem.head_dim_v))) {
      Join(p, slot);
    } else {
      SumRun(p, kTileLanes<T>);
      BeginSums(p);
      const ScoreModifier<T> modifier = gradient.Modifier(keys);
      AddVisibleRows(modifier, keys, num_rows, pair.dropped, gradient.dout_rows, problem.head_dim_v,
                     layout.round_dv(p));
      AddVisibleRows(modifier, keys, num_rows, pair.ds, gradient.q_rows, problem.head_dim, layout.round_dk(p));
    }
    if (num_rows < kTileLanes<T>) EndRound(p, num_rows);
    if (args.dq == nullptr) return;
    T* dq = args.dq + first * problem.head_dim;  // tiles of kTileLanes rows
    if (all_visible || tile.keys_finite) {
      Product<NV>(problem.head_dim, keys.end - keys.begin, k_rows.data + keys.begin * k_rows.stride, One(),
                  k_rows.stride, pair.ds + keys.begin * kRow, Fixed<kRow>(), dq, kRow, SetZero(), AddTo());
    } else {
      alignas(64) T ones[kMaxLanes];
      std::fill_n(ones, kMaxLanes, T{1});
      AccumulateVisible(gradient.Modifier(keys), keys, NV, k_rows, problem.head_dim, pair.ds, ones, dq);
    }
  }

  /// Ends the round of key tile p if the query tile in `slot` does not go on with it: other keys, or fewer rows.
  HWY_INLINE void GoOn(index_t p, index_t slot, const KeyRange& keys) {
    PassTile<T>& tile = pass[p];
    const bool goes_on = tile.round_end == slot && tile.round_keys.begin == keys.begin &&
                         tile.round_keys.end == keys.end && gradient.lanes.num_rows == kTileLanes<T>;
    if (!goes_on) EndRound(p, kTileLanes<T>);
    tile.round_keys = keys;
    tile.round_end = slot + 1;
  }

  /// Adds the query tile in `slot` to the run of key tile p.
  HWY_INLINE void Join(index_t p, index_t slot) {
    PassTile<T>& tile = pass[p];
    const bool follows = tile.run_begin + tile.run_size == slot &&
                         Follows(gradient.q_rows, tile.run_queries, tile.run_size) &&
                         Follows(gradient.dout_rows, tile.run_douts, tile.run_size);
    if (tile.run_size > 0 && !follows) SumRun(p, kTileLanes<T>);
    if (tile.run_size == 0) {
      tile.run_begin = slot;
      tile.run_queries = gradient.q_rows;
      tile.run_douts = gradient.dout_rows;
    }
    ++tile.run_size;
  }

  /// Whether rows lie where those of `num_tiles` tiles end.
  static HWY_INLINE bool Follows(const TileRows<T>& rows, const TileRows<T>& first, index_t num_tiles) {
    return rows.stride == first.stride && rows.data == first.data + num_tiles * kTileLanes<T> * first.stride;
  }

  /// From here on the layout holds the sums of the round.
  HWY_INLINE void BeginSums(index_t p) {
    if (pass[p].has_sums) return;
    pass[p].has_sums = true;
    ClearSums(layout.round_dk(p), layout.round_dv(p));
  }

  /// Adds the run to the sums of its round.
  HWY_INLINE void SumRun(index_t p, index_t num_rows) {
    if (pass[p].run_size == 0) return;
    BeginSums(p);
    Sum<Accumulate, Nothing>(p, num_rows, layout.round_dk(p), layout.round_dv(p));
  }

  /// Adds a round, whose last tile has num_rows rows, to dk and dv: in one product if it is one run.
  HWY_INLINE void EndRound(index_t p, index_t num_rows) {
    PassTile<T>& tile = pass[p];
    tile.round_end = -1;
    if (!tile.has_sums) return Sum<SetZero, AddTo>(p, num_rows, layout.dk(p), layout.dv(p));
    SumRun(p, num_rows);
    tile.has_sums = false;
    AddArray(layout.round_dk(p), kKeysPerTile * layout.width, layout.dk(p));
    AddArray(layout.round_dv(p), kKeysPerTile * layout.width_v, layout.dv(p));
  }

  /// dv += P dO and dk += dS Q over the run, whose tiles have num_rows rows each.
  template <class Start, class Finish>
  HWY_INLINE void Sum(index_t p, index_t num_rows, T* dk, T* dv) {
    PassTile<T>& tile = pass[p];
    if (tile.run_size == 0) return;
    const PairTiles<T> pair(layout, p, tile.run_begin);
    if (args.dv.data != nullptr) {
      AddRows<Start, Finish>(tile.round_keys, num_rows, tile.run_size, pair.dropped, tile.run_douts, problem.head_dim_v,
                             dv);
    }
    if (args.dk.data != nullptr) {
      AddRows<Start, Finish>(tile.round_keys, num_rows, tile.run_size, pair.ds, tile.run_queries, problem.head_dim, dk);
    }
    tile.run_size = 0;
  }

  HWY_INLINE bool Finite(const TileRows<T>& rows, index_t width) const {
    return AllFinite<T>(rows, 0, gradient.lanes.num_rows, width);
  }

  HWY_INLINE void Write(const Rows& to, index_t origin, index_t end, index_t width, T factor, T* sums) const {
    if (to.data == nullptr) return;
    for (index_t j = 0; j < end; ++j) {
      T* row = sums + j * PaddedWidth<T>(width);
      for (index_t f = 0; f < width; ++f) row[f] *= factor;
      WriteRow(to, origin + j, 0, row, width);
    }
  }
};

template <class T>
index_t BackwardWorkspace(const BackwardArgs<T>& args) {
  return BackwardLayout<T>(args).size;
}

template <class T>
void BackwardBlockKernel(const BackwardArgs<T>& args) {
  BackwardBlock<T>(args).Run();
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
