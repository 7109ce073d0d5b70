// Forward: one block of query rows against a range of keys.
//
//   per key tile, per query tile (docs/algorithm.md, section 2):
//     S[key][lane]  = K Q^T                          MicroKernel, Q packed once as [feature][lane]; (1)
//     max, factor   = running maximum, exp(old max - new max)
//     P[key][lane]  = exp(S - max), sum += P
//     O[feature][lane] = O * factor + V^T P          MicroKernel, O' of (6)
//   every kKeysPerFold keys O and sum are added to outer sums; at the end out = O / sum.
//
// Query tiles pass over the keys in groups that stay in the L2. In a group key tiles are outer, so that a tile is
// loaded, converted and checked once; several groups of a block share the tiles of a segment of keys.

#if defined(MULTIHEAD_KERNELS_FORWARD_FORWARD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_FORWARD_FORWARD_INL
#undef MULTIHEAD_KERNELS_FORWARD_FORWARD_INL
#else
#define MULTIHEAD_KERNELS_FORWARD_FORWARD_INL
#endif

#include <algorithm>

#include "core/ceil_div.hpp"
#include "hwy/highway.h"
#include "kernels/forward/block_layout-inl.hpp"
#include "kernels/forward/finish-inl.hpp"
#include "kernels/forward/forward_prefetch-inl.hpp"
#include "kernels/forward/probs-inl.hpp"
#include "kernels/forward/tile_values-inl.hpp"
#include "kernels/kernels.hpp"
#include "kernels/product/micro_kernel-inl.hpp"
#include "kernels/product/prefetcher-inl.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/tile/bias_tile-inl.hpp"
#include "kernels/tile/dropout-inl.hpp"
#include "kernels/tile/finite-inl.hpp"
#include "kernels/tile/key_tile-inl.hpp"
#include "kernels/tile/lane_rows-inl.hpp"
#include "kernels/tile/scores-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct ForwardBlock {
  static constexpr Fixed<kTileLanes<T>> kRow{};
  static constexpr index_t kFarTiles = 8;  // query tiles whose packed rows do not stay near
  static constexpr index_t kCut = 8;       // keys that vectors are left out for at a time
  const ForwardArgs<T>& args;
  const HeadProblem<T>& problem;
  BlockLayout<T> layout;
  index_t first, last;  // keys that some row sees
  ForwardPrefetch<T> prefetch;
  T* tile = nullptr;  // of the current pair: scores, then P

  HWY_INLINE explicit ForwardBlock(const ForwardArgs<T>& a)
      : args(a), problem(a.problem), layout(a), first(a.key_end), last(a.key_begin), prefetch{a, layout} {
    for (index_t t = 0; t < layout.num_tiles; ++t) {
      const index_t row = layout.first_row(t);
      Lanes<T>& lanes = layout.query_tiles[t].lanes;
      InitLanes(problem, args.first_row + row, layout.first_row(t + 1) - row, lanes);
      layout.query_tiles[t].has_values = false;
      layout.query_tiles[t].fold = 0;
      softmax(t).Init(problem, lanes, args.key_begin == 0);
      if (layout.is_long) layout.outer(t).Init(softmax(t), problem.head_dim_v);
      PackQueries(problem.q, lanes, problem.head_dim, problem.scale,
                  HWY_TARGET > HWY_AVX3 || layout.num_tiles >= kFarTiles, layout.queries(t), layout.rows);
      first = std::min(first, lanes.first_begin);
      last = std::max(last, lanes.last_end);
    }
    first = std::max(first, args.key_begin);
    last = std::min(last, args.key_end);
    std::fill_n(layout.slots, layout.num_slots, KeySlot<T>());
    std::fill_n(layout.history_, layout.history_size(), -kInfinity<T>);
  }

  HWY_INLINE RunningSoftmax<T> softmax(index_t t) { return RunningSoftmax<T>(layout.softmax(t)); }

  /// Keys of the tile at `origin` that some lane of query tile t sees.
  HWY_INLINE KeyRange Range(index_t t, index_t origin) const {
    const Lanes<T>& lanes = layout.query_tiles[t].lanes;
    return {origin, std::max({lanes.first_begin, first, origin}) - origin,
            std::min({lanes.last_end - origin, last - origin, kKeysPerForwardTile})};
  }

  HWY_INLINE void Run() {
    const index_t segment_keys = layout.num_slots * kKeysPerForwardTile, step = layout.tiles_per_group;
    index_t begin = first / kKeysPerForwardTile * kKeysPerForwardTile;
    do {
      const index_t end = std::min(begin + segment_keys, last);
      for (index_t t = 0; t < layout.num_tiles; t += step) {
        Group(t, std::min(t + step, layout.num_tiles), begin, end);
      }
      begin += segment_keys;
    } while (begin < last);
  }

  /// Query tiles [first_tile, end_tile) over keys [begin, end) of a segment.
  HWY_INLINE void Group(index_t first_tile, index_t end_tile, index_t begin, index_t end) {
    for (index_t origin = begin; origin < end; origin += kKeysPerForwardTile) {
      const index_t index = (origin - begin) / kKeysPerForwardTile;
      KeySlot<T>& slot = layout.slots[index];
      const KeySlot<T>& next = layout.slots[(index + 1) % layout.num_slots];
      for (index_t t = first_tile; t < end_tile; ++t) {
        const KeyRange keys = Range(t, origin);
        if (keys.begin >= keys.end) continue;
        if (slot.keys.origin != origin) LoadKeys(index, origin);
        FoldPast(t, origin);
        const index_t part = t - first_tile, parts = end_tile - first_tile;
        prefetch.rows.Clear();
        if (origin + keys.end >= std::min(layout.query_tiles[t].lanes.last_end, last)) prefetch.Out(t);
        if (origin + kKeysPerForwardTile >= last) {
          if (args.upcoming != nullptr && end_tile == layout.num_tiles) prefetch.Block(*args.upcoming, part, parts);
        } else if (next.keys.origin != origin + kKeysPerForwardTile) {
          prefetch.Keys(origin + kKeysPerForwardTile, std::min(origin + 2 * kKeysPerForwardTile, last), part, parts);
        }
        if (problem.bias.data != nullptr) {  // of the pair that follows
          const bool same_keys = t + 1 < end_tile;
          const index_t next_origin = same_keys ? origin : origin + kKeysPerForwardTile;
          if (next_origin < end) {
            prefetch.Bias(same_keys ? t + 1 : first_tile, next_origin,
                          std::min(next_origin + kKeysPerForwardTile, last));
          }
        }
        prefetch.rows.Spread((keys.end - keys.begin + problem.head_dim_v) / kRowsPerBlock<kNumVectors>);
        WithNumVectors(layout.query_tiles[t].lanes.num_vectors,
                       [&](auto count) HWY_ATTR { Tile<decltype(count)::value>(t, keys, slot); });
      }
    }
    if (end < last) return;
    for (index_t t = first_tile; t < end_tile; ++t) {
      const QueryTile<T>& query_tile = layout.query_tiles[t];
      if (layout.is_long) {
        Fold(t);
        layout.outer(t).CopyTo(softmax(t).sum, layout.acc(t), problem.head_dim_v);
      } else if (!query_tile.has_values) {
        std::fill_n(layout.acc(t), problem.head_dim_v * kTileLanes<T>, T{0});
      }
      FinishTile(args, layout, query_tile.lanes, t);
    }
  }

  /// Before the tile at `origin`: sums over the keys of an earlier fold go to the outer ones. Folds begin at fixed keys
  /// of the sequence, so the bits do not depend on what other lanes of the tile see.
  HWY_INLINE void FoldPast(index_t t, index_t origin) {
    QueryTile<T>& query_tile = layout.query_tiles[t];
    const index_t fold = origin / kKeysPerFold;
    if (fold == query_tile.fold) return;
    query_tile.fold = fold;
    Fold(t);
  }

  HWY_INLINE void Fold(index_t t) {
    QueryTile<T>& query_tile = layout.query_tiles[t];
    if (!query_tile.has_values) return;
    query_tile.has_values = false;
    layout.outer(t).Add(softmax(t), query_tile.lanes.num_vectors, layout.acc(t), problem.head_dim_v);
  }

  HWY_INLINE void LoadKeys(index_t index, index_t origin) {
    KeySlot<T>& slot = layout.slots[index];
    slot.keys = {origin, std::max(first - origin, index_t{0}), std::min(last - origin, kKeysPerForwardTile)};
    slot.k_rows = LoadTile(problem.k, problem.pages, problem.pages.k_page_stride, problem.head_dim, problem.copy_keys,
                           slot.keys, layout.keys(index));
    slot.v_rows = LoadTile(problem.v, problem.pages, problem.pages.v_page_stride, problem.head_dim_v,
                           problem.copy_values, slot.keys, layout.values(index));
    slot.values_finite = KeySlot<T>::Finite::unknown;
  }

  HWY_INLINE bool ValuesFinite(KeySlot<T>& slot) const {
    using Finite = typename KeySlot<T>::Finite;
    if (slot.values_finite == Finite::unknown) {
      const bool finite = AllFinite<T>(slot.v_rows, slot.keys.begin, slot.keys.end, problem.head_dim_v);
      slot.values_finite = finite ? Finite::yes : Finite::no;
    }
    return slot.values_finite == Finite::yes;
  }

  template <int NV>
  HWY_NOINLINE void Tile(index_t t, const KeyRange& keys, KeySlot<T>& slot) {
    const Lanes<T>& lanes = layout.query_tiles[t].lanes;
    const BiasKind bias = BuildBiasTile(problem, lanes, keys, layout.bias, layout.rows);
    if (bias == BiasKind::hides_all) return;
    tile = layout.tile(t, keys.origin / kKeysPerForwardTile);
    alignas(64) T tile_max[kMaxLanes], factor[kMaxLanes];
    std::fill_n(tile_max, kMaxLanes, -kInfinity<T>);
    RunningSoftmax<T> state = softmax(t);
    const auto modifier = [&]() HWY_ATTR {
      return ScoreModifier<T>(problem, lanes, keys, bias == BiasKind::none ? nullptr : layout.bias);
    };
    KeyRange inner = PlainKeys(problem, lanes, keys);
    Cuts cuts;
    std::fill_n(cuts.at, kNumVectors + 1, keys.end);
    cuts.at[0] = keys.begin;
    const bool all_inner = inner.begin == keys.begin && inner.end == keys.end;
    if (inner.end < keys.end) {
      inner.end = std::max(inner.end / kRowsPerBlock<NV> * kRowsPerBlock<NV>, inner.begin);  // whole register blocks
      CutOff<NV>(lanes, keys, cuts);
    }
    PlainScores<NV>(t, inner, slot.k_rows, bias, tile_max, state.seen);
    for (const KeyRange& rim : {KeyRange{keys.origin, keys.begin, inner.begin}, {keys.origin, inner.end, keys.end}}) {
      if (rim.begin >= rim.end) continue;
      RimScores<0, NV>(t, rim, cuts, slot.k_rows);
      modifier().Apply(rim, NV, cuts, tile, tile_max, state.seen);
    }
    const bool raised = Weigh<NV>(t, keys, cuts, state, tile_max, factor);
    const bool all_visible = bias == BiasKind::none && all_inner;
    bool& has_values = layout.query_tiles[t].has_values;
    if (all_visible || ValuesFinite(slot)) {
      TileValues<T> values{tile, slot.v_rows, problem.head_dim_v, &prefetch.rows};
      values.template Add<NV>(cuts, has_values, raised, factor, layout.acc(t));
    } else {
      if (!has_values) std::fill_n(layout.acc(t), problem.head_dim_v * kRow, T{0});
      AccumulateVisible(modifier(), keys, NV, slot.v_rows, problem.head_dim_v, tile, factor, layout.acc(t));
    }
    has_values = true;
  }

  /// Leaves out, on the upper side of the rim, the vectors none of whose lanes see a key any more.
  template <int NV>
  HWY_INLINE void CutOff(const Lanes<T>& lanes, const KeyRange& keys, Cuts& cuts) const {
    index_t last_end = keys.origin, n = 0;
    for (int s = 1; s < NV; ++s) {
      for (; n < s * kVectorLanes<T>; ++n) last_end = std::max(last_end, lanes.end[n]);
      const index_t end = round_up(last_end - keys.origin, kCut);
      cuts.at[s] = std::clamp(end, cuts.at[s - 1], keys.end);
    }
  }

  template <int NV, class Finish>
  HWY_INLINE void ScoresOf(index_t t, const KeyRange& keys, const TileRows<T>& k_rows, Finish finish,
                           index_t lane = 0) {
    Product<NV>(keys.end - keys.begin, problem.head_dim, k_rows.data + keys.begin * k_rows.stride, k_rows.stride, One(),
                layout.queries(t) + lane, kRow, tile + keys.begin * kRow + lane, kRow, SetZero(),
                ThenPrefetch<Finish>{finish, &prefetch.rows});
  }

  template <int S, int NV>
  HWY_INLINE void RimScores(index_t t, const KeyRange& rim, const Cuts& cuts, const TileRows<T>& k_rows) {
    const KeyRange keys{rim.origin, std::max(rim.begin, cuts.at[S]), std::min(rim.end, cuts.at[S + 1])};
    if (keys.begin < keys.end) ScoresOf<NV - S>(t, keys, k_rows, Nothing(), S * kVectorLanes<T>);
    if constexpr (S + 1 < NV) RimScores<S + 1, NV>(t, rim, cuts, k_rows);
  }

  /// Scores of keys that need nothing but, perhaps, their bias.
  template <int NV>
  HWY_INLINE void PlainScores(index_t t, const KeyRange& keys, const TileRows<T>& k_rows, BiasKind bias, T* max,
                              T* seen) {
    if (keys.begin >= keys.end) return;
    if (bias == BiasKind::none) {
      ScoresOf<NV>(t, keys, k_rows, KeepMax<T>{max});
      std::fill_n(seen, NV * kVectorLanes<T>, T{1});
    } else {
      const index_t at = keys.begin * kTileLanes<T>;
      ScoresOf<NV>(t, keys, k_rows, ApplyBias<T>{layout.bias + at, tile + at, max, seen});
    }
  }

  /// Scores to probabilities relative to the running maximum; keeps them if they are asked for; dropout.
  template <int NV>
  HWY_INLINE bool Weigh(index_t t, const KeyRange& keys, const Cuts& cuts, RunningSoftmax<T>& state, const T* tile_max,
                        T* factor) {
    const bool raised = state.Raise(tile_max, NV, factor);
    const Lanes<T>& lanes = layout.query_tiles[t].lanes;
    Exponentiate<NV>(cuts, tile, state);
    if (layout.keeps_probs) tile = KeepProbs(args, layout, t, keys);
    if (problem.dropout_threshold != 0) ApplyDropout(problem, lanes, keys, tile);
    return raised;
  }
};

template <class T>
void ForwardBlockKernel(const ForwardArgs<T>& args) {
  ForwardBlock<T>(args).Run();
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
