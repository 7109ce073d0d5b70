// Scores of a few query rows with a tile of keys that stay where they lie.
//
//   DotKeys      scores[n][j] = dot(q[n], k[j])         vectors along the features, 4 keys x 2 queries at a time
//
// A key row is read once, converted in registers and used for all query rows. The order of every sum depends on the
// width alone, however rows are grouped.

#if defined(MULTIHEAD_KERNELS_PRODUCT_DOT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_PRODUCT_DOT_INL
#undef MULTIHEAD_KERNELS_PRODUCT_DOT_INL
#else
#define MULTIHEAD_KERNELS_PRODUCT_DOT_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/product/prefetcher-inl.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/convert-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int kKeysPerDot = 4;

/// Most rows of a kv head whose scores are computed this way. They fit the lanes of one tile.
template <class T>
inline constexpr index_t kDecodeRows = kTileLanes<T> < 8 ? kTileLanes<T> : 8;

/// Rows of storage type S: row j is at data + offset[j].
template <class S>
struct ScatteredRows {
  const S* data;
  const index_t* offset;
  index_t width;
  HWY_INLINE const S* operator()(index_t j) const { return data + offset[j]; }
};
template <class S>
ScatteredRows(const S*, const index_t*, index_t) -> ScatteredRows<S>;  // not implied for an aggregate before clang 17

#if HWY_TARGET != HWY_SCALAR
/// Adds up the blocks of 128 bits of a vector.
template <class D>
HWY_INLINE auto SumOfBlocks(D d, hn::Vec<D> x) {
  if constexpr (hn::MaxLanes(d) * sizeof(hn::TFromD<D>) <= 16) {
    return x;
  } else {
    const hn::Half<D> half;
    return SumOfBlocks(half, hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x)));
  }
}

#endif

/// out[i] = the sum of the lanes of x[i].
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StoreLaneSums([[maybe_unused]] D d, const hn::Vec<D> (&x)[kKeysPerDot], T* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  for (int i = 0; i < kKeysPerDot; ++i) out[i] = hn::GetLane(x[i]);
#else
  const hn::FixedTag<T, 16 / sizeof(T)> block;
  const auto pair = [&](auto dw, auto a, auto b)
                        HWY_ATTR { return hn::Add(hn::InterleaveLower(dw, a, b), hn::InterleaveUpper(dw, a, b)); };
  const auto low = pair(d, x[0], x[1]), high = pair(d, x[2], x[3]);
  if constexpr (sizeof(T) == 8) {
    hn::StoreU(SumOfBlocks(d, low), block, out);
    hn::StoreU(SumOfBlocks(d, high), block, out + 2);
  } else {
    const hn::RepartitionToWide<D> dw;
    const auto even = hn::BitCast(d, hn::InterleaveLower(dw, hn::BitCast(dw, low), hn::BitCast(dw, high)));
    const auto odd = hn::BitCast(d, hn::InterleaveUpper(dw, hn::BitCast(dw, low), hn::BitCast(dw, high)));
    hn::StoreU(SumOfBlocks(d, hn::Add(even, odd)), block, out);
  }
#endif
}

/// sum += key * q for one vector of features.
template <int NQ, int NK, class T>
HWY_INLINE void AddProducts(const hn::Vec<Tag<T>> (&key)[NK], const T* HWY_RESTRICT q, index_t q_row,
                            hn::Vec<Tag<T>> (&sum)[NQ * NK / kKeysPerDot][kKeysPerDot]) {
  const Tag<T> d;
#pragma GCC unroll 4
  for (int n = 0; n < NQ; ++n) {
    const auto x = hn::LoadU(d, q + n * q_row);
#pragma GCC unroll 4
    for (int i = 0; i < NK; ++i) {
      auto& to = sum[(n * NK + i) / kKeysPerDot][(n * NK + i) % kKeysPerDot];
      to = hn::MulAdd(key[i], x, to);
    }
  }
}

/// NQ queries with NK keys, 2 or 4. q rows are padded with zeros to whole vectors.
template <int NQ, int NK, class T, class S>
HWY_INLINE void DotBlock(const S* const* keys, index_t width, const T* HWY_RESTRICT q, index_t q_row,
                         T* HWY_RESTRICT out, index_t out_row) {
  const Tag<T> d;
  hn::Vec<Tag<T>> sum[NQ * NK / kKeysPerDot][kKeysPerDot], key[NK];  // [query][key], in fours
#pragma GCC unroll 8
  for (int n = 0; n < NQ * NK; ++n) sum[n / kKeysPerDot][n % kKeysPerDot] = hn::Zero(d);
  index_t f = 0;
#pragma GCC unroll 2
  for (; f + kVectorLanes<T> <= width; f += kVectorLanes<T>) {
#pragma GCC unroll 4
    for (int i = 0; i < NK; ++i) key[i] = LoadAs(d, keys[i] + f);
    AddProducts<NQ, NK>(key, q + f, q_row, sum);
  }
  if (f < width) {
    for (int i = 0; i < NK; ++i) key[i] = LoadAs(d, keys[i] + f, width - f);
    AddProducts<NQ, NK>(key, q + f, q_row, sum);
  }
#pragma GCC unroll 4
  for (int g = 0; g < NQ * NK / kKeysPerDot; ++g) {
    if constexpr (NK == kKeysPerDot) {
      StoreLaneSums(d, sum[g], out + g * out_row);
    } else {
      T pairs[kKeysPerDot];
      StoreLaneSums(d, sum[g], pairs);
      std::copy_n(pairs, 2, out + 2 * g * out_row);
      std::copy_n(pairs + 2, 2, out + (2 * g + 1) * out_row);
    }
  }
}

/// Scores of keys [begin, end) of a tile: whole blocks of four from a multiple of four on; what lies beside the range
/// is written, too, with numbers of no meaning. No key beside it is read.
template <class T, class S>
HWY_NOINLINE void DotKeys(const ScatteredRows<S>& keys, index_t begin, index_t end, const T* HWY_RESTRICT q,
                          index_t q_row, index_t num_rows, T* HWY_RESTRICT scores, index_t scores_row,
                          LinePrefetcher& prefetcher) {
  for (index_t j = begin / kKeysPerDot * kKeysPerDot; j < end; j += kKeysPerDot) {
    const S* rows[kKeysPerDot];
    if (j >= begin && j + kKeysPerDot <= end) {
      for (int i = 0; i < kKeysPerDot; ++i) rows[i] = keys(j + i);
    } else {
      for (int i = 0; i < kKeysPerDot; ++i) rows[i] = keys(std::clamp<index_t>(j + i, begin, end - 1));
    }
    prefetcher.Step();
    index_t n = 0;
    for (; n + 4 <= num_rows; n += 4) {  // a key is converted once
      DotBlock<4, 2>(rows, keys.width, q + n * q_row, q_row, scores + n * scores_row + j, scores_row);
      DotBlock<4, 2>(rows + 2, keys.width, q + n * q_row, q_row, scores + n * scores_row + j + 2, scores_row);
    }
    for (; n + 2 <= num_rows; n += 2) {
      DotBlock<2, 4>(rows, keys.width, q + n * q_row, q_row, scores + n * scores_row + j, scores_row);
    }
    if (n < num_rows) {
      DotBlock<1, 4>(rows, keys.width, q + n * q_row, q_row, scores + n * scores_row + j, scores_row);
    }
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
