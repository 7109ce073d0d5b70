// Backward: the gradients of one kv head's keys and values, and their share of the queries' gradients.
//
//   per key tile, per query tile (docs/algorithm.md, section 3):
//     P, dS            score_gradient-inl.hpp
//     dV[key][:]  += P dO         dK[key][:] += dS Q         dQ[feature][lane] += K^T dS
//
// All five products are MicroKernel. Key tiles are outer, a few of them in a pass over the queries: dK and dV stay in
// the cache and are written once; dQ is added to in key order, so its bits do not depend on threads. Sums for dK and dV
// are taken over a run of several query tiles at once.

#if defined(MULTIHEAD_KERNELS_BACKWARD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_BACKWARD_INL
#undef MULTIHEAD_KERNELS_BACKWARD_INL
#else
#define MULTIHEAD_KERNELS_BACKWARD_INL
#endif

#include "hwy/highway.h"
#include "kernels/finish-inl.hpp"
#include "kernels/score_gradient-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// to[key][:] += sum_n tile[key][n] * rows[n][:] for keys [begin, end), over the rows of `num_tiles` tiles: the product
/// with whole rows of queries. Only a single tile may have less than all its rows.
template <class T>
HWY_NOINLINE void AddRows(const KeyRange& keys, index_t num_rows, index_t num_tiles, const T* HWY_RESTRICT tiles,
                          const TileRows<T>& rows, index_t width, T* HWY_RESTRICT to) {
  const index_t padded = PaddedWidth<T>(width);
  const index_t vectors = (width + kVectorLanes<T> - 1) / kVectorLanes<T>;
  const T* a = tiles + keys.begin * kTileLanes<T>;
  T* c = to + keys.begin * padded;
  const auto columns = [&](auto count, index_t v) HWY_ATTR {
    const index_t f = v * kVectorLanes<T>;
    const auto product = [&](index_t num_k, auto walk) HWY_ATTR {
      Product<decltype(count)::value>(keys.end - keys.begin, num_k, a, Fixed<kTileLanes<T>>(), One(), rows.data + f, rows.stride,
                                      c + f, padded, Accumulate(), Nothing(), walk);
    };
    if (num_rows == kTileLanes<T>) {
      product(num_tiles * num_rows, Segments<kTileLanes<T>>(BackwardLayout<T>::kTile - kTileLanes<T>));
    } else {
      product(num_rows, Whole());
    }
  };
  index_t v = 0;
#if HWY_TARGET <= HWY_AVX3  // 6x4 blocks: no vector of 64 or 128 features is left over
  if (vectors % 4 == 0) {
    for (; v < vectors; v += 4) columns(std::integral_constant<int, 4>(), v);
  }
#endif
  for (; v + kNumVectors <= vectors; v += kNumVectors) columns(std::integral_constant<int, kNumVectors>(), v);
  if (vectors - v == 2) columns(std::integral_constant<int, 2>(), v);
  if (vectors - v == 1) columns(std::integral_constant<int, 1>(), v);
}

/// AddRows over visible pairs alone, for rows that hold NaN or infinity; the same sums in the same order.
template <class T>
HWY_NOINLINE void AddVisibleRows(const ScoreModifier<T>& modifier, const KeyRange& keys, index_t num_rows,
                                 const T* tile, const TileRows<T>& rows, index_t width, T* to) {
  const Tag<T> d;
  const index_t padded = PaddedWidth<T>(width);
  for (index_t j = keys.begin; j < keys.end; ++j) {
    for (index_t n = 0; n < num_rows; ++n) {
      if (!modifier.VisibleAt(j, n)) continue;
      const auto weight = hn::Set(d, tile[j * kTileLanes<T> + n]);
      for (index_t f = 0; f < (rows.stride == padded ? padded : width); f += kVectorLanes<T>) {
        T* at = to + j * padded + f;
        hn::StoreU(hn::MulAdd(weight, hn::LoadU(d, rows.data + n * rows.stride + f), hn::LoadU(d, at)), d, at);
      }
    }
  }
}

/// A key tile of a pass, and the run of query tiles whose products with it are due.
template <class T>
struct PassTile {
  KeyRange all;  // its keys
  TileRows<T> k_rows, v_rows;
  bool keys_finite;
  KeyRange run_keys;
  index_t run_begin, run_size;  // slots
  TileRows<T> run_queries, run_douts;
};

template <class T>
struct BackwardBlock {
  const BackwardArgs<T>& args;
  const Scores<T>& scores;
  const BackwardLayout<T> layout;
  ScoreGradient<T> gradient;
  PassTile<T> pass[kTilesPerPass];

  HWY_INLINE explicit BackwardBlock(const BackwardArgs<T>& a)
      : args(a), scores(a.scores), layout(a), gradient(a, layout) {}

  HWY_INLINE void Run() {
    const index_t rows = scores.num_heads * scores.seqlen_q;
    if (args.dq != nullptr) {
      const index_t tiles = (rows + kTileLanes<T> - 1) / kTileLanes<T>;
      std::fill_n(args.dq, tiles * kTileLanes<T> * scores.head_dim, T{0});
    }
    for (index_t begin = args.key_begin; begin < args.key_end; begin += kTilesPerPass * kKeysPerTile) {
      const index_t end = std::min(args.key_end, begin + kTilesPerPass * kKeysPerTile);
      const index_t num_tiles = (end - begin + kKeysPerTile - 1) / kKeysPerTile;
      for (index_t p = 0; p < num_tiles; ++p) Begin(p, begin + p * kKeysPerTile);
      index_t slot = 0;
      for (index_t first = 0; first < rows; first += kTileLanes<T>) {
        const index_t num_rows = std::min(rows - first, kTileLanes<T>);
        if (Skip(first, num_rows, begin, end)) continue;
        gradient.Load(first, num_rows, slot, QueryByQuery(scores));
        gradient.Prefetch(first + num_rows, std::min(rows - first - num_rows, kTileLanes<T>));
        for (index_t p = 0; p < num_tiles; ++p) Pair(p, slot, first);
        if (++slot < kTilesPerRun) continue;
        for (index_t p = 0; p < num_tiles; ++p) Flush(p);
        slot = 0;
      }
      for (index_t p = 0; p < num_tiles; ++p) End(p);
    }
  }

  HWY_INLINE void Begin(index_t p, index_t origin) {
    PassTile<T>& tile = pass[p];
    tile.all = {origin, 0, std::min(args.key_end - origin, kKeysPerTile)};
    tile.k_rows = LoadTile(scores.k, scores.pages, scores.pages.k_page_stride, scores.head_dim, scores.copy_keys,
                           tile.all, layout.keys(p));
    tile.v_rows = LoadTile(scores.v, scores.pages, scores.pages.v_page_stride, scores.head_dim_v, scores.copy_values,
                           tile.all, layout.values(p));
    tile.keys_finite = AllFinite(tile.k_rows, 0, tile.all.end, scores.head_dim);
    tile.run_size = 0;
    std::fill_n(layout.dk(p), kKeysPerTile * layout.width, T{0});
    std::fill_n(layout.dv(p), kKeysPerTile * layout.width_v, T{0});
  }

  HWY_INLINE void End(index_t p) {
    Flush(p);
    const KeyRange& all = pass[p].all;
    Write(args.dk, all.origin, all.end, scores.head_dim, scores.scale, layout.dk(p));
    Write(args.dv, all.origin, all.end, scores.head_dim_v, T{1}, layout.dv(p));
  }

  /// Whether the rows surely see nothing of keys [begin, end): before anything is loaded.
  HWY_INLINE bool Skip(index_t first, index_t num_rows, index_t begin, index_t end) const {
    const QueryRange queries = QueriesOf(scores, first, num_rows);
    if (!QueryByQuery(scores) && queries.end - queries.begin < num_rows) return false;  // rows of two heads
    return scores.banded &&
           (queries.begin + scores.band_begin >= end || queries.end - 1 + scores.band_end <= begin);
  }

  HWY_INLINE void Pair(index_t p, index_t slot, index_t first) {
    const KeyRange keys = gradient.Range(pass[p].all.origin, 0, pass[p].all.end);
    if (keys.begin >= keys.end) return;
    switch (gradient.lanes.num_vectors) {
      case 1: Tile<1>(p, slot, first, keys); break;
      case 2: Tile<2>(p, slot, first, keys); break;
      default: Tile<kNumVectors>(p, slot, first, keys); break;
    }
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
    if (all_visible ||
        (Finite(gradient.q_rows, scores.head_dim) && Finite(gradient.dout_rows, scores.head_dim_v))) {
      Join(p, slot, keys);
    } else {
      Flush(p);
      const ScoreModifier<T> modifier = gradient.Modifier(keys);
      const index_t num_rows = gradient.lanes.num_rows;
      AddVisibleRows(modifier, keys, num_rows, pair.dropped, gradient.dout_rows, scores.head_dim_v, layout.dv(p));
      AddVisibleRows(modifier, keys, num_rows, pair.ds, gradient.q_rows, scores.head_dim, layout.dk(p));
    }
    if (args.dq == nullptr) return;
    T* dq = args.dq + first * scores.head_dim;  // tiles of kTileLanes rows
    if (all_visible || tile.keys_finite) {
      Product<NV>(scores.head_dim, keys.end - keys.begin, k_rows.data + keys.begin * k_rows.stride, One(),
                  k_rows.stride, pair.ds + keys.begin * kRow, Fixed<kRow>(), dq, kRow, Accumulate(), Nothing());
    } else {
      alignas(64) T ones[kMaxLanes];
      std::fill_n(ones, kMaxLanes, T{1});
      AccumulateVisible(gradient.Modifier(keys), keys, NV, k_rows, scores.head_dim, pair.ds, ones, dq);
    }
  }

  /// Adds the query tile in `slot` to the run of key tile p; one that is not full ends it.
  HWY_INLINE void Join(index_t p, index_t slot, const KeyRange& keys) {
    PassTile<T>& tile = pass[p];
    const bool goes_on = tile.run_size > 0 && tile.run_begin + tile.run_size == slot &&
                         tile.run_keys.begin == keys.begin && tile.run_keys.end == keys.end &&
                         Follows(gradient.q_rows, tile.run_queries, tile.run_size) &&
                         Follows(gradient.dout_rows, tile.run_douts, tile.run_size);
    const bool full = gradient.lanes.num_rows == kTileLanes<T>;
    if (!goes_on || !full) {
      Flush(p);
      tile.run_begin = slot;
      tile.run_keys = keys;
      tile.run_queries = gradient.q_rows;
      tile.run_douts = gradient.dout_rows;
    }
    ++tile.run_size;
    if (!full) Sum(p, gradient.lanes.num_rows);
  }

  /// Whether rows lie where those of `num_tiles` tiles end.
  static HWY_INLINE bool Follows(const TileRows<T>& rows, const TileRows<T>& first, index_t num_tiles) {
    return rows.stride == first.stride && rows.data == first.data + num_tiles * kTileLanes<T> * first.stride;
  }

  HWY_INLINE void Flush(index_t p) { Sum(p, kTileLanes<T>); }

  /// dV += P dO and dK += dS Q over the run, whose tiles have num_rows rows each.
  HWY_INLINE void Sum(index_t p, index_t num_rows) {
    PassTile<T>& tile = pass[p];
    if (tile.run_size == 0) return;
    const PairTiles<T> pair(layout, p, tile.run_begin);
    if (args.dv.data != nullptr) {
      AddRows(tile.run_keys, num_rows, tile.run_size, pair.dropped, tile.run_douts, scores.head_dim_v,
              layout.dv(p));
    }
    if (args.dk.data != nullptr) {
      AddRows(tile.run_keys, num_rows, tile.run_size, pair.ds, tile.run_queries, scores.head_dim,
              layout.dk(p));
    }
    tile.run_size = 0;
  }

  HWY_INLINE bool Finite(const TileRows<T>& rows, index_t width) const {
    return AllFinite(rows, 0, gradient.lanes.num_rows, width);
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
