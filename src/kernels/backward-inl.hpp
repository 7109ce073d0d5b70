// Backward: the gradients of one kv head's keys and values, and their share of the queries' gradients.
//
//   per key tile, per query tile (docs/algorithm.md, section 3):
//     P, dS            score_gradient-inl.hpp
//     dV[key][:]  += P dO         dK[key][:] += dS Q         dQ[feature][lane] += K^T dS
//
// All five products are MicroKernel. Key tiles are outer: dK and dV stay in the cache and are written once; dQ is
// added to in key order, so its bits do not depend on threads.

#if defined(MULTIHEAD_KERNELS_BACKWARD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_BACKWARD_INL
#undef MULTIHEAD_KERNELS_BACKWARD_INL
#else
#define MULTIHEAD_KERNELS_BACKWARD_INL
#endif

#include "hwy/highway.h"
#include "kernels/score_gradient-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// to[key][:] += sum_n tile[key][n] * rows[n][:] for keys [begin, end): the product with whole rows of queries.
template <class T>
HWY_NOINLINE void AddRows(const KeyRange& keys, index_t num_rows, const T* HWY_RESTRICT tile,
                          const T* HWY_RESTRICT rows, index_t width, T* HWY_RESTRICT to) {
  const index_t padded = PaddedWidth<T>(width);
  const index_t vectors = (width + kVectorLanes<T> - 1) / kVectorLanes<T>;
  const T* a = tile + keys.begin * kTileLanes<T>;
  T* c = to + keys.begin * padded;
  const auto columns = [&](auto count, index_t v) HWY_ATTR {
    const index_t f = v * kVectorLanes<T>;
    Product<decltype(count)::value>(keys.end - keys.begin, num_rows, a, kTileLanes<T>, One(), rows + f, padded, c + f,
                                    padded, Accumulate(), Nothing());
  };
  index_t v = 0;
  for (; v + kNumVectors <= vectors; v += kNumVectors) columns(std::integral_constant<int, kNumVectors>(), v);
  if (vectors - v == 2) columns(std::integral_constant<int, 2>(), v);
  if (vectors - v == 1) columns(std::integral_constant<int, 1>(), v);
}

/// AddRows over visible pairs alone, for rows that hold NaN or infinity; the same sums in the same order.
template <class T>
HWY_NOINLINE void AddVisibleRows(const ScoreModifier<T>& modifier, const KeyRange& keys, index_t num_rows,
                                 const T* tile, const T* rows, index_t width, T* to) {
  const Tag<T> d;
  const index_t padded = PaddedWidth<T>(width);
  for (index_t j = keys.begin; j < keys.end; ++j) {
    for (index_t n = 0; n < num_rows; ++n) {
      if (!modifier.VisibleAt(j, n)) continue;
      const auto weight = hn::Set(d, tile[j * kTileLanes<T> + n]);
      for (index_t f = 0; f < padded; f += kVectorLanes<T>) {
        T* at = to + j * padded + f;
        hn::StoreU(hn::MulAdd(weight, hn::LoadU(d, rows + n * padded + f), hn::LoadU(d, at)), d, at);
      }
    }
  }
}

template <class T>
struct BackwardBlock {
  const BackwardArgs<T>& args;
  const Scores<T>& scores;
  const BackwardLayout<T> layout;
  ScoreGradient<T> gradient;
  TileRows<T> k_rows, v_rows;
  bool keys_finite;

  HWY_INLINE explicit BackwardBlock(const BackwardArgs<T>& a)
      : args(a), scores(a.scores), layout(a), gradient(a, layout) {}

  HWY_INLINE void LoadKeys(const KeyRange& keys) {
    k_rows = LoadTile(scores.k, scores.pages, scores.pages.k_page_stride, scores.head_dim, true, keys, layout.keys);
    v_rows = LoadTile(scores.v, scores.pages, scores.pages.v_page_stride, scores.head_dim_v, true, keys, layout.values);
    keys_finite = AllFinite(k_rows, keys.begin, keys.end, scores.head_dim);
  }

  HWY_INLINE void Run() {
    const index_t rows = scores.num_heads * scores.seqlen_q;
    for (index_t origin = args.key_begin; origin < args.key_end; origin += kKeysPerTile) {
      const index_t end = std::min(args.key_end - origin, kKeysPerTile);
      LoadKeys({origin, 0, end});
      std::fill_n(layout.dk, kKeysPerTile * PaddedWidth<T>(scores.head_dim), T{0});
      std::fill_n(layout.dv, kKeysPerTile * PaddedWidth<T>(scores.head_dim_v), T{0});
      for (index_t first = 0; first < rows; first += kTileLanes<T>) {
        if (Skip(first, std::min(rows - first, kTileLanes<T>), origin, end)) continue;
        gradient.Load(first, std::min(rows - first, kTileLanes<T>));
        const KeyRange keys = gradient.Range(origin, 0, end);
        if (keys.begin >= keys.end) continue;
        switch (gradient.lanes.num_vectors) {
          case 1: Tile<1>(first, keys); break;
          case 2: Tile<2>(first, keys); break;
          default: Tile<kNumVectors>(first, keys); break;
        }
      }
      Write(args.dk, origin, end, scores.head_dim, scores.scale, layout.dk);
      Write(args.dv, origin, end, scores.head_dim_v, T{1}, layout.dv);
    }
  }

  /// Whether the rows surely see nothing of keys [origin, origin + end): before anything is loaded.
  HWY_INLINE bool Skip(index_t first, index_t num_rows, index_t origin, index_t end) const {
    const index_t query = first % scores.seqlen_q;
    if (query + num_rows > scores.seqlen_q) return false;  // rows of two heads
    const index_t low = query + scores.diagonal - scores.left;
    const index_t high = query + num_rows - 1 + scores.diagonal + scores.right;
    return low >= origin + end || high < origin;
  }

  template <int NV>
  HWY_NOINLINE void Tile(index_t first, const KeyRange& keys) {
    constexpr index_t kRow = kTileLanes<T>;
    if (!gradient.template Compute<NV>(keys, k_rows, v_rows)) return;
    const index_t num_rows = gradient.lanes.num_rows;
    const bool all_visible = IsPlain(scores, gradient.lanes, keys);
    const bool rows_finite =
        all_visible || (Finite(layout.query_rows, scores.head_dim) && Finite(layout.dout_rows, scores.head_dim_v));
    gradient.Uncap(keys);
    if (rows_finite) {
      if (args.dv.data) AddRows(keys, num_rows, layout.dropped, layout.dout_rows, scores.head_dim_v, layout.dv);
      if (args.dk.data) AddRows(keys, num_rows, layout.ds, layout.query_rows, scores.head_dim, layout.dk);
    } else {
      const ScoreModifier<T> modifier = gradient.Modifier(keys);
      AddVisibleRows(modifier, keys, num_rows, layout.dropped, layout.dout_rows, scores.head_dim_v, layout.dv);
      AddVisibleRows(modifier, keys, num_rows, layout.ds, layout.query_rows, scores.head_dim, layout.dk);
    }
    if (args.dq == nullptr) return;
    T* dq = args.dq + first * scores.head_dim;  // tiles of kTileLanes rows
    if (all_visible || keys_finite) {
      Product<NV>(scores.head_dim, keys.end - keys.begin, k_rows.data + keys.begin * k_rows.stride, One(),
                  k_rows.stride, layout.ds + keys.begin * kRow, kRow, dq, kRow, Accumulate(), Nothing());
    } else {
      alignas(64) T ones[kMaxLanes];
      std::fill_n(ones, kMaxLanes, T{1});
      AccumulateVisible(gradient.Modifier(keys), keys, NV, k_rows, scores.head_dim, layout.ds, ones, dq);
    }
  }

  HWY_INLINE bool Finite(const T* rows, index_t width) const {
    return AllFinite(TileRows<T>{rows, PaddedWidth<T>(width)}, 0, gradient.lanes.num_rows, width);
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

template <class T>
void QueryGradient(const QueryGradientArgs<T>& args) {
  const Scores<T>& scores = args.scores;
  const index_t rows = scores.num_heads * scores.seqlen_q, width = scores.head_dim;
  const index_t tile_size = width * kTileLanes<T>;
  T* sum = args.workspace;
  alignas(64) T factor[kMaxLanes];
  std::fill_n(factor, kMaxLanes, scores.scale);
  Lanes<T> lanes;
  for (index_t first = 0; first < rows; first += kTileLanes<T>) {
    InitLanes(scores, first, std::min(rows - first, kTileLanes<T>), lanes);
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
  const Scores<T>& scores = args.backward.scores;
  const BackwardLayout<T> layout(args.backward);
  ScoreGradient<T> gradient(args.backward, layout);
  gradient.Load(args.first_row, args.num_rows);
  const KeyRange keys = gradient.Range(args.origin, 0, std::min(scores.seqlen_kv - args.origin, kKeysPerTile));
  if (keys.begin >= keys.end) return;
  const auto k = LoadTile(scores.k, scores.pages, index_t{0}, scores.head_dim, true, keys, layout.keys);
  const auto v = LoadTile(scores.v, scores.pages, index_t{0}, scores.head_dim_v, true, keys, layout.values);
  bool any = false;
  switch (gradient.lanes.num_vectors) {
    case 1: any = gradient.template Compute<1>(keys, k, v); break;
    case 2: any = gradient.template Compute<2>(keys, k, v); break;
    default: any = gradient.template Compute<kNumVectors>(keys, k, v); break;
  }
  if (!any) return;
  for (index_t j = keys.begin; j < keys.end; ++j) {
    for (index_t n = 0; n < args.num_rows; ++n) args.acc[j * kTileLanes<T> + n] += layout.ds[j * kTileLanes<T> + n];
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
