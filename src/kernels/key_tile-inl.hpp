// One tile of keys and values of a kv head, as rows of the arithmetic type.
//
// Rows are used where they lie when they can be; otherwise (bf16, f16, pages, or rows so far apart that they thrash
// the cache) they are brought into contiguous rows once for all query tiles of a block.

#if defined(MULTIHEAD_KERNELS_KEY_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_KEY_TILE_INL
#undef MULTIHEAD_KERNELS_KEY_TILE_INL
#else
#define MULTIHEAD_KERNELS_KEY_TILE_INL
#endif

#include "hwy/highway.h"
#include "kernels/convert-inl.hpp"
#include "kernels/scores-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Rows of a tile: row j (relative to the tile's first key) is at data + j*stride.
template <class T>
struct TileRows {
  const T* data;
  index_t stride;
};

/// Width of a copied row: an odd number of cache lines, so that rows walk through all sets of the L1.
template <class T>
HWY_INLINE index_t PaddedWidth(index_t width) {
  return ((width + kLine<T> - 1) / kLine<T> | 1) * kLine<T>;
}

/// True when rows must or shall be copied.
template <class T>
HWY_INLINE bool NeedsCopy(const ConstRows& rows, const Pages& pages, bool wanted) {
  return wanted || pages.table != nullptr || rows.dtype != (sizeof(T) == 8 ? DType::f64 : DType::f32);
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
      const index_t key = keys.origin + j;
      const auto* row = data;
      if (pages.table == nullptr) {
        row += key * rows.token_stride;
      } else {
        const index_t page = pages.table[key / pages.page_size * pages.table_stride];
        row += page * page_stride + key % pages.page_size * rows.token_stride;
      }
      LoadRow(row, width, copy + j * padded);
    }
  });
  return {copy, padded};
}

/// Asks the L2 for part `part` of `parts` of rows [begin, end) of a head, ahead of their use: rows far apart defeat the
/// prefetcher of the CPU. The L1 has no room for what is needed that much later.
HWY_INLINE void PrefetchRows(const ConstRows& rows, index_t head, index_t width, index_t begin, index_t end,
                             index_t part, index_t parts) {
  const index_t size = dtype_bytes(rows.dtype), bytes = width * size, step = rows.token_stride * size;
  const char* data = static_cast<const char*>(rows.data) + head * rows.head_stride * size;
  const index_t count = std::max<index_t>(end - begin, 0);
  for (index_t j = begin + count * part / parts; j < begin + count * (part + 1) / parts; ++j) {
    for (index_t at = 0; at < bytes; at += 64) __builtin_prefetch(data + j * step + at, 0, 2);
  }
}

/// Whether rows [begin, end) hold numbers only.
template <class T>
HWY_NOINLINE bool AllFinite(const TileRows<T>& rows, index_t begin, index_t end, index_t width) {
  const Tag<T> d;
  index_t j = begin;
  if (width % kVectorLanes<T> == 0) {  // four rows side by side: their sums do not wait for one another
    hn::Vec<Tag<T>> probe[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (; j + 4 <= end; j += 4) {
      const T* HWY_RESTRICT row = rows.data + j * rows.stride;
      for (index_t f = 0; f < width; f += kVectorLanes<T>) {
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) {
          probe[r] = hn::MulAdd(hn::LoadU(d, row + r * rows.stride + f), hn::Zero(d), probe[r]);
        }
      }
    }
    const auto all = hn::Add(hn::Add(probe[0], probe[1]), hn::Add(probe[2], probe[3]));
    if (!hn::AllTrue(d, hn::Eq(all, all))) return false;
  }
  for (; j < end; ++j) {
    const T* HWY_RESTRICT row = rows.data + j * rows.stride;
    auto probe = hn::Zero(d);  // 0 * x is NaN exactly for infinities and NaN
    index_t f = 0;
    for (; f + kVectorLanes<T> <= width; f += kVectorLanes<T>) {
      probe = hn::MulAdd(hn::LoadU(d, row + f), hn::Zero(d), probe);
    }
    bool finite = hn::AllTrue(d, hn::Eq(probe, probe));
    for (; f < width; ++f) finite = finite && row[f] * T{0} == T{0};
    if (!finite) return false;
  }
  return true;
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
        sum = hn::IfThenElse(modifier.Visible(d, j, n), next, sum);
      }
      T* HWY_RESTRICT at = acc + f * kTileLanes<T> + n;
      hn::StoreU(hn::MulAdd(hn::LoadU(d, at), scale, sum), d, at);
    }
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
