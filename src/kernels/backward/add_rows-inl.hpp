// Sums over the rows of query tiles, for dK and dV.

#if defined(MULTIHEAD_KERNELS_BACKWARD_ADD_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_BACKWARD_ADD_ROWS_INL
#undef MULTIHEAD_KERNELS_BACKWARD_ADD_ROWS_INL
#else
#define MULTIHEAD_KERNELS_BACKWARD_ADD_ROWS_INL
#endif

#include <algorithm>
#include <type_traits>

#include "core/ceil_div.hpp"
#include "hwy/highway.h"
#include "kernels/backward/backward_layout-inl.hpp"
#include "kernels/product/micro_kernel-inl.hpp"
#include "kernels/product/walk-inl.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/tile/key_tile-inl.hpp"
#include "kernels/tile/scores-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// to[key][:] += sum_n tile[key][n] * rows[n][:] for keys [begin, end), over the rows of `num_tiles` tiles: the product
/// with whole rows of queries. Only a single tile may have less than all its rows. With Accumulate and Nothing the sum
/// goes on from what `to` holds; with SetZero and AddTo it is added as a whole.
template <class Start, class Finish, class T>
HWY_NOINLINE void AddRows(const KeyRange& keys, index_t num_rows, index_t num_tiles, const T* HWY_RESTRICT tiles,
                          const TileRows<T>& rows, index_t width, T* HWY_RESTRICT to) {
  const index_t padded = PaddedWidth<T>(width);
  const index_t vectors = ceil_div(width, kVectorLanes<T>);
  const T* a = tiles + keys.begin * kTileLanes<T>;
  T* c = to + keys.begin * padded;
  const auto columns = [&](auto count, index_t v) HWY_ATTR {
    const index_t f = v * kVectorLanes<T>;
    const auto product = [&](index_t num_k, auto walk) HWY_ATTR {
      Product<decltype(count)::value>(keys.end - keys.begin, num_k, a, Fixed<kTileLanes<T>>(), One(), rows.data + f,
                                      rows.stride, c + f, padded, Start(), Finish(), walk);
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
      if (!modifier.Sees(j, n)) continue;
      const auto weight = hn::Set(d, tile[j * kTileLanes<T> + n]);
      for (index_t f = 0; f < (rows.stride == padded ? padded : width); f += kVectorLanes<T>) {
        T* at = to + j * padded + f;
        hn::StoreU(hn::MulAdd(weight, hn::LoadU(d, rows.data + n * rows.stride + f), hn::LoadU(d, at)), d, at);
      }
    }
  }
}

/// to += from
template <class T>
HWY_INLINE void AddArray(const T* HWY_RESTRICT from, index_t count, T* HWY_RESTRICT to) {
  for (index_t i = 0; i < count; ++i) to[i] += from[i];
}

/// outer += sums, which start from zero again.
template <class T>
HWY_INLINE void FoldArray(T* HWY_RESTRICT sums, index_t count, T* HWY_RESTRICT outer) {
  AddArray(sums, count, outer);
  std::fill_n(sums, count, T{0});
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
