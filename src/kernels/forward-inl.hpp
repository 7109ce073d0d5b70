// Forward: one block of query rows against a range of keys.
//
//   per key tile, per query tile (docs/algorithm.md, section 2):
//     S[key][lane]  = K Q^T                          MicroKernel, Q packed once as [feature][lane]
//     max, factor   = running maximum, exp(old max - new max)
//     P[key][lane]  = exp(S - max), sum += P
//     O[feature][lane] = O * factor + V^T P          MicroKernel
//   at the end out = O / sum.
//
// Key tiles are outer and query tiles inner, so that a key tile is loaded, converted and checked once a block.

#if defined(MULTIHEAD_KERNELS_FORWARD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_FORWARD_INL
#undef MULTIHEAD_KERNELS_FORWARD_INL
#else
#define MULTIHEAD_KERNELS_FORWARD_INL
#endif

#include "hwy/highway.h"
#include "kernels/dropout-inl.hpp"
#include "kernels/finish-inl.hpp"
#include "kernels/key_tile-inl.hpp"
#include "kernels/scores-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// P = exp(S - max) in place, keys [begin, end); adds to sum.
template <int NV, class T>
HWY_INLINE void Exponentiate(const KeyRange& keys, T* HWY_RESTRICT tile, const RunningSoftmax<T>& softmax) {
  const Tag<T> d;
  hn::Vec<Tag<T>> shift[NV], sum[NV];
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) {
    shift[v] = hn::LoadU(d, softmax.shift + v * kVectorLanes<T>);
    sum[v] = hn::Zero(d);
  }
  for (index_t j = keys.begin; j < keys.end; ++j) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      T* HWY_RESTRICT at = tile + j * kTileLanes<T> + v * kVectorLanes<T>;
      const auto p = ExpMinus(d, hn::LoadU(d, at), shift[v]);
      sum[v] = hn::Add(sum[v], p);
      hn::StoreU(p, d, at);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) {
    T* total = softmax.sum + v * kVectorLanes<T>;
    hn::StoreU(hn::Add(hn::LoadU(d, total), sum[v]), d, total);
  }
}

template <class T>
struct ForwardBlock {
  const ForwardArgs<T>& args;
  const Scores<T>& scores;
  BlockLayout<T> layout;
  Lanes<T> lanes[kMaxTilesPerBlock];
  index_t num_tiles;

  // The key tile in hand.
  TileRows<T> k_rows, v_rows;
  index_t loaded_begin, loaded_end;
  enum class Finite { unknown, yes, no } values_finite;

  HWY_INLINE explicit ForwardBlock(const ForwardArgs<T>& a) : args(a), scores(a.scores), layout(a) {
    num_tiles = (args.num_rows + kTileLanes<T> - 1) / kTileLanes<T>;
    for (index_t t = 0; t < num_tiles; ++t) {
      const index_t row = t * kTileLanes<T>;
      InitLanes(scores, args.first_row + row, std::min(args.num_rows - row, kTileLanes<T>), lanes[t]);
      softmax(t).Init(scores, lanes[t], args.key_begin == 0);
      PackQueries(scores.q, lanes[t], scores.head_dim, scores.scale, layout.queries(t), layout.rows);
      std::fill_n(layout.acc(t), scores.head_dim_v * kTileLanes<T>, T{0});
      if (args.probs.data != nullptr) ClearProbs(args, lanes[t]);
    }
    if (args.probs.data != nullptr)
      std::fill_n(layout.history(0, layout.first_key_tile), layout.history_size(), -kInfinity<T>);
  }

  HWY_INLINE RunningSoftmax<T> softmax(index_t t) { return RunningSoftmax<T>(layout.softmax(t)); }

  HWY_INLINE void Run() {
    index_t first = args.key_end, last = args.key_begin;
    for (index_t t = 0; t < num_tiles; ++t) {
      first = std::min(first, lanes[t].first_begin);
      last = std::max(last, lanes[t].last_end);
    }
    first = std::max(first, args.key_begin);
    last = std::min(last, args.key_end);
    for (index_t origin = first / kKeysPerTile * kKeysPerTile; origin < last; origin += kKeysPerTile) {
      LoadKeys({origin, std::max(first - origin, index_t{0}), std::min(last - origin, kKeysPerTile)});
      for (index_t t = 0; t < num_tiles; ++t) {
        const KeyRange keys{origin, std::max(lanes[t].first_begin - origin, loaded_begin),
                            std::min(lanes[t].last_end - origin, loaded_end)};
        PrefetchNext(origin + kKeysPerTile, last, t);
        if (keys.begin >= keys.end) continue;
        switch (lanes[t].num_vectors) {
          case 1: Tile<1>(t, keys); break;
          case 2: Tile<2>(t, keys); break;
          default: Tile<kNumVectors>(t, keys); break;
        }
      }
    }
    for (index_t t = 0; t < num_tiles; ++t) FinishTile(args, layout, lanes[t], t);
  }

  HWY_INLINE void LoadKeys(const KeyRange& keys) {
    loaded_begin = keys.begin;
    loaded_end = keys.end;
    k_rows = LoadTile(scores.k, scores.pages, scores.pages.k_page_stride, scores.head_dim, scores.copy_keys, keys,
                      layout.keys);
    v_rows = LoadTile(scores.v, scores.pages, scores.pages.v_page_stride, scores.head_dim_v, scores.copy_values, keys,
                      layout.values);
    values_finite = Finite::unknown;
  }

  HWY_INLINE void PrefetchNext(index_t first, index_t last, index_t t) const {
    const index_t end = std::min(first + kKeysPerTile, last);
    PrefetchTile<T>(scores.k, scores.pages, scores.head_dim, first, end, t, num_tiles);
    PrefetchTile<T>(scores.v, scores.pages, scores.head_dim_v, first, end, t, num_tiles);
  }

  HWY_INLINE bool ValuesFinite() {
    if (values_finite == Finite::unknown) {
      values_finite = AllFinite(v_rows, loaded_begin, loaded_end, scores.head_dim_v) ? Finite::yes : Finite::no;
    }
    return values_finite == Finite::yes;
  }

  template <int NV>
  HWY_NOINLINE void Tile(index_t t, const KeyRange& keys) {
    constexpr index_t kRow = kTileLanes<T>;
    const bool plain = IsPlain(scores, lanes[t], keys);
    if (HasBiasTile(scores) && !BuildBiasTile(scores, lanes[t], keys, layout.bias, layout.rows)) return;
    alignas(64) T tile_max[kMaxLanes], factor[kMaxLanes];
    std::fill_n(tile_max, kMaxLanes, -kInfinity<T>);
    RunningSoftmax<T> state = softmax(t);
    T* HWY_RESTRICT tile = layout.tile;
    const auto scores_of = [&](auto finish) HWY_ATTR {
      Product<NV>(keys.end - keys.begin, scores.head_dim, k_rows.data + keys.begin * k_rows.stride, k_rows.stride,
                  One(), layout.queries(t), kRow, tile + keys.begin * kRow, kRow, SetZero(), finish);
    };
    if (plain) {
      scores_of(KeepMax<T>{tile_max});
      std::fill_n(state.seen, NV * kVectorLanes<T>, T{1});
      const bool raised = Weigh<NV>(t, keys, state, tile_max, factor);
      Values<NV>(t, keys, raised, factor);
      return;
    }
    scores_of(Nothing());
    const ScoreModifier<T> modifier(scores, lanes[t], keys, HasBiasTile(scores) ? layout.bias : nullptr);
    modifier.Apply(keys, NV, tile, tile_max, state.seen);
    const bool raised = Weigh<NV>(t, keys, state, tile_max, factor);
    if (ValuesFinite()) {
      Values<NV>(t, keys, raised, factor);
    } else {
      AccumulateVisible(modifier, keys, NV, v_rows, scores.head_dim_v, tile, factor, layout.acc(t));
    }
  }

  /// Scores to probabilities in units of the running maximum; stores them if wanted; dropout.
  template <int NV>
  HWY_INLINE bool Weigh(index_t t, const KeyRange& keys, RunningSoftmax<T>& state, const T* tile_max, T* factor) {
    const bool raised = state.Raise(tile_max, NV, factor);
    Exponentiate<NV>(keys, layout.tile, state);
    if (args.probs.data != nullptr) {
      StoreProbs(args, lanes[t], keys, layout.tile);
      std::copy_n(state.shift, kTileLanes<T>, layout.history(t, keys.origin / kKeysPerTile));
    }
    if (scores.dropout_threshold != 0) ApplyDropout(scores, lanes[t], keys, layout.tile);
    return raised;
  }

  template <int NV>
  HWY_INLINE void Values(index_t t, const KeyRange& keys, bool raised, const T* factor) {
    constexpr index_t kRow = kTileLanes<T>;
    const auto accumulate = [&](auto start) HWY_ATTR {
      Product<NV>(scores.head_dim_v, keys.end - keys.begin, v_rows.data + keys.begin * v_rows.stride, One(),
                  v_rows.stride, layout.tile + keys.begin * kRow, kRow, layout.acc(t), kRow, start, Nothing());
    };
    if (raised) {
      accumulate(Rescale<T>{factor});
    } else {
      accumulate(Accumulate());
    }
  }
};

template <class T>
void ForwardBlockKernel(const ForwardArgs<T>& args) {
  ForwardBlock<T>(args).Run();
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
