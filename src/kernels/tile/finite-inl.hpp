// Whether rows hold NaN or infinity: then products must leave hidden pairs out one by one, as 0 times NaN is NaN.

#if defined(MULTIHEAD_KERNELS_TILE_FINITE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILE_FINITE_INL
#undef MULTIHEAD_KERNELS_TILE_FINITE_INL
#else
#define MULTIHEAD_KERNELS_TILE_FINITE_INL
#endif

#include <type_traits>

#include "hwy/highway.h"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/convert-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Whether rows(j), j in [begin, end), hold finite numbers only. Four rows side by side: their sums do not wait for one
/// another.
template <class T, class RowOf>
HWY_NOINLINE bool AllFinite(const RowOf& rows, index_t begin, index_t end, index_t width) {
  const Tag<T> d;
  constexpr int kRows = 4;
  const auto zero = hn::Zero(d);
  index_t j = begin;
  const auto finite = [&](auto count) HWY_ATTR {
    constexpr int kCount = decltype(count)::value;
    for (; j + kCount <= end; j += kCount) {
      hn::Vec<Tag<T>> probe[kCount];  // 0 * x is NaN exactly for infinities and NaN
      for (int r = 0; r < kCount; ++r) probe[r] = zero;
      index_t f = 0;
      for (; f + kVectorLanes<T> <= width; f += kVectorLanes<T>) {
#pragma GCC unroll 4
        for (int r = 0; r < kCount; ++r) probe[r] = hn::MulAdd(LoadAs(d, rows(j + r) + f), zero, probe[r]);
      }
      auto all = zero;
      for (int r = 0; r < kCount; ++r) {
        if (f < width) probe[r] = hn::MulAdd(LoadAs(d, rows(j + r) + f, width - f), zero, probe[r]);
        all = hn::Add(all, probe[r]);
      }
      if (!hn::AllTrue(d, hn::Eq(all, all))) return false;
    }
    return true;
  };
  return finite(std::integral_constant<int, kRows>()) && finite(std::integral_constant<int, 1>());
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
