// One tile of keys and values of a kv head, as rows of the arithmetic type.
//
// Rows are used where they lie when they can be; otherwise (bf16, f16, pages, or rows so far apart that they thrash
// the cache) they are copied into contiguous rows once for all query tiles of a block.

#if defined(MULTIHEAD_KERNELS_TILE_KEY_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILE_KEY_TILE_INL
#undef MULTIHEAD_KERNELS_TILE_KEY_TILE_INL
#else
#define MULTIHEAD_KERNELS_TILE_KEY_TILE_INL
#endif

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/convert-inl.hpp"
#include "kernels/tile/score_order-inl.hpp"
#include "kernels/tile/scores-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Rows of a tile: row j (relative to the tile's first key) is at data + j*stride.
template <class T>
struct TileRows {
  const T* data;
  index_t stride;
  HWY_INLINE const T* operator()(index_t j) const { return data + j * stride; }
};

/// True when rows must or shall be copied.
template <class T>
HWY_INLINE bool NeedsCopy(const ConstRows& rows, const Pages& pages, bool wanted) {
  return wanted || pages.table != nullptr || rows.dtype != kDType<T>;
}

/// Where the row of a key begins, in elements from the rows' data.
HWY_INLINE index_t KeyOffset(const ConstRows& rows, const Pages& pages, index_t page_stride, index_t key) {
  if (pages.table == nullptr) return key * rows.token_stride;
  const index_t page = pages.table[key / pages.page_size * pages.table_stride];
  return page * page_stride + key % pages.page_size * rows.token_stride;
}

/// Rows [keys.begin, keys.end) of the tile at keys.origin; `copy` is room for kKeysPerTile rows of PaddedWidth.
template <class T>
HWY_INLINE TileRows<T> LoadTile(const ConstRows& rows, const Pages& pages, index_t page_stride, index_t width,
                                bool copy_wanted, const KeyRange& keys, T* HWY_RESTRICT copy) {
  if (!NeedsCopy<T>(rows, pages, copy_wanted)) {
    return {static_cast<const T*>(rows.data) + keys.origin * rows.token_stride, rows.token_stride};
  }
  const index_t padded = PaddedWidth<T>(width);
  WithType<T>(rows.dtype, rows.data, [&](const auto* data) HWY_ATTR {
    for (index_t j = keys.begin; j < keys.end; ++j) {
      LoadRow(data + KeyOffset(rows, pages, page_stride, keys.origin + j), width, copy + j * padded);
    }
  });
  return {copy, padded};
}

/// O = O * factor + V^T P over visible pairs alone: for value tiles that hold NaN or infinity beside hidden keys.
/// The same sums in the same order as the micro-kernel's, bit for bit.
template <class T>
HWY_NOINLINE void AccumulateVisible(const ScoreModifier<T>& modifier, const KeyRange& keys, int num_vectors,
                                    const TileRows<T>& values, index_t width, const T* HWY_RESTRICT tile,
                                    const T* HWY_RESTRICT factor, T* HWY_RESTRICT acc) {
  const Tag<T> d;
  for (index_t n = 0; n < num_vectors * kVectorLanes<T>; n += kVectorLanes<T>) {
    const auto scale = hn::LoadU(d, factor + n);
    for (index_t f = 0; f < width; ++f) {
      auto sum = hn::Zero(d);
      for (index_t j = keys.begin; j < keys.end; ++j) {
        const auto value = hn::Set(d, values.data[j * values.stride + f]);
        const auto next = hn::MulAdd(value, hn::LoadU(d, tile + j * kTileLanes<T> + n), sum);
        sum = hn::IfThenElse(Visible(d, modifier.At(j, n)), next, sum);
      }
      T* HWY_RESTRICT at = acc + f * kTileLanes<T> + n;
      hn::StoreU(hn::MulAdd(hn::LoadU(d, at), scale, sum), d, at);
    }
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
