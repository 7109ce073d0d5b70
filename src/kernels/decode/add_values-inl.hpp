// The product of a few rows of probs with a tile of values that stay where they lie.
//
//   AddValues    acc[n][f] += sum_j p[n][j] v[j][f]     vectors along the features, 8 sums at a time
//
// A value row is read once, converted in registers and used for all query rows. Sums are in the order of the keys,
// however rows are grouped.

#if defined(MULTIHEAD_KERNELS_DECODE_ADD_VALUES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_DECODE_ADD_VALUES_INL
#undef MULTIHEAD_KERNELS_DECODE_ADD_VALUES_INL
#else
#define MULTIHEAD_KERNELS_DECODE_ADD_VALUES_INL
#endif

#include <type_traits>

#include "hwy/highway.h"
#include "kernels/product/dot-inl.hpp"
#include "kernels/product/prefetcher-inl.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/convert-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// One value row, NC vectors of it, into the sums of NQ rows; p[n * p_row] is its weight in row n.
template <int NQ, int NC, class T, class S>
HWY_INLINE void AddValue(const S* row, index_t rest, const T* HWY_RESTRICT p, index_t p_row,
                         hn::Vec<Tag<T>> (&sum)[NQ][NC]) {
  const Tag<T> d;
  hn::Vec<Tag<T>> value[NC];
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) {
    value[c] = rest > 0 ? LoadAs(d, row, rest) : LoadAs(d, row + c * kVectorLanes<T>);
  }
#pragma GCC unroll 8
  for (int n = 0; n < NQ; ++n) {
    const auto weight = hn::Set(d, p[n * p_row]);
#pragma GCC unroll 8
    for (int c = 0; c < NC; ++c) sum[n][c] = hn::MulAdd(value[c], weight, sum[n][c]);
  }
}

/// NQ rows of sums, NC vectors of columns from `f` on; `rest` > 0: the only vector has that many columns.
template <int NQ, int NC, class T, class S>
HWY_INLINE void ValueBlock(const ScatteredRows<S>& values, index_t begin, index_t end, const T* HWY_RESTRICT p,
                           index_t p_row, index_t f, index_t rest, T* HWY_RESTRICT acc, index_t acc_row,
                           LinePrefetcher& prefetcher) {
  const Tag<T> d;
  hn::Vec<Tag<T>> sum[NQ][NC];
#pragma GCC unroll 8
  for (int n = 0; n < NQ; ++n) {
#pragma GCC unroll 8
    for (int c = 0; c < NC; ++c) sum[n][c] = hn::LoadU(d, acc + n * acc_row + f + c * kVectorLanes<T>);
  }
  index_t j = begin;
  for (; j + 4 <= end; j += 4) {
    prefetcher.Step();
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) AddValue<NQ, NC>(values(j + i) + f, rest, p + j + i, p_row, sum);
  }
  for (; j < end; ++j) AddValue<NQ, NC>(values(j) + f, rest, p + j, p_row, sum);
#pragma GCC unroll 8
  for (int n = 0; n < NQ; ++n) {
#pragma GCC unroll 8
    for (int c = 0; c < NC; ++c) hn::StoreU(sum[n][c], d, acc + n * acc_row + f + c * kVectorLanes<T>);
  }
}

/// All columns of NQ rows, 8 sums or a few less at a time.
template <int NQ, class T, class S>
HWY_NOINLINE void ValueRows(const ScatteredRows<S>& values, index_t begin, index_t end, const T* HWY_RESTRICT p,
                            index_t p_row, T* HWY_RESTRICT acc, index_t acc_row, LinePrefetcher& prefetcher) {
  constexpr index_t kLanes = kVectorLanes<T>;
  index_t f = 0;
  const auto columns = [&](auto count) HWY_ATTR {
    constexpr int kCount = decltype(count)::value;
    for (; f + kCount * kLanes <= values.width; f += kCount * kLanes) {
      ValueBlock<NQ, kCount>(values, begin, end, p, p_row, f, 0, acc, acc_row, prefetcher);
    }
  };
  if constexpr (NQ == 1) columns(std::integral_constant<int, 8>());
  if constexpr (NQ <= 2) columns(std::integral_constant<int, 4>());
  columns(std::integral_constant<int, 2>());
  columns(std::integral_constant<int, 1>());
  if (f < values.width) {
    ValueBlock<NQ, 1>(values, begin, end, p, p_row, f, values.width - f, acc, acc_row, prefetcher);
  }
}

/// acc += p v over keys [begin, end) of a tile, in their order.
template <class T, class S>
HWY_INLINE void AddValues(const ScatteredRows<S>& values, index_t begin, index_t end, const T* HWY_RESTRICT p,
                          index_t p_row, index_t num_rows, T* HWY_RESTRICT acc, index_t acc_row,
                          LinePrefetcher& prefetcher) {
  index_t n = 0;
  const auto rows = [&](auto count) HWY_ATTR {
    constexpr int kCount = decltype(count)::value;
    for (; n + kCount <= num_rows; n += kCount) {
      ValueRows<kCount>(values, begin, end, p + n * p_row, p_row, acc + n * acc_row, acc_row, prefetcher);
    }
  };
  rows(std::integral_constant<int, 4>());
  rows(std::integral_constant<int, 3>());
  rows(std::integral_constant<int, 2>());
  rows(std::integral_constant<int, 1>());
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
