// Scores of few rows as decode computes them, so that the backward recomputes the same bits.

#if defined(MULTIHEAD_KERNELS_BACKWARD_DOT_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_BACKWARD_DOT_TILE_INL
#undef MULTIHEAD_KERNELS_BACKWARD_DOT_TILE_INL
#else
#define MULTIHEAD_KERNELS_BACKWARD_DOT_TILE_INL
#endif

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/product/dot-inl.hpp"
#include "kernels/product/prefetcher-inl.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/tile/key_tile-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

/// The same scores as tile[key][lane], from queries[feature][lane]: what backward recomputes has the bits that decode
/// had. `q` is room for num_rows rows of VectorWidth.
template <class T>
HWY_NOINLINE void DotTile(const KeyRange& range, const TileRows<T>& keys, index_t width, index_t num_rows,
                          const T* HWY_RESTRICT queries, T* HWY_RESTRICT q, T* HWY_RESTRICT tile) {
  const index_t q_row = VectorWidth<T>(width);
  T scores[kDecodeRows<T> * kKeysPerTile];
  index_t offset[kKeysPerTile];
  for (index_t j = 0; j < range.end; ++j) offset[j] = j * keys.stride;
  for (index_t n = 0; n < num_rows; ++n) {
    for (index_t f = 0; f < q_row; ++f) q[n * q_row + f] = f < width ? queries[f * kTileLanes<T> + n] : T{0};
  }
  LinePrefetcher none;
  DotKeys(ScatteredRows<T>{keys.data, offset, width}, range.begin, range.end, q, q_row, num_rows, scores, kKeysPerTile,
          none);
  for (index_t j = range.begin; j < range.end; ++j) {
    for (index_t n = 0; n < kTileLanes<T>; ++n) {
      tile[j * kTileLanes<T> + n] = n < num_rows ? scores[n * kKeysPerTile + j] : T{0};
    }
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
