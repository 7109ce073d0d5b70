// Final statistics of rows from their running ones: row_max, row_sum, lse and the factor of the accumulated values.

#if defined(MULTIHEAD_KERNELS_TILE_FINAL_ROW_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILE_FINAL_ROW_INL
#undef MULTIHEAD_KERNELS_TILE_FINAL_ROW_INL
#else
#define MULTIHEAD_KERNELS_TILE_FINAL_ROW_INL
#endif

#include <cmath>
#include <limits>

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Factor of the accumulated values of rows: 1/sum; 0 for a row without visible key; NaN where all scores are
/// -infinity.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V InverseSums(D d, V max, V sum, V seen) {
  using T = hn::TFromD<D>;
  const auto only_minus_infinity = hn::Eq(max, hn::Set(d, -kInfinity<T>));
  const V total = hn::IfThenElse(only_minus_infinity, hn::Set(d, std::numeric_limits<T>::quiet_NaN()), sum);
  // A row without a key has -infinity as its maximum, so what it is divided by is NaN, which raises no flag.
  return hn::IfThenZeroElse(hn::Eq(seen, hn::Zero(d)), hn::Div(hn::Set(d, T{1}), total));
}

/// Final statistics of a row, from its running ones.
template <class T>
struct FinalRow {
  T inverse, max, sum;

  HWY_INLINE FinalRow(T running_max, T running_sum, bool seen)
      : max(running_max),
        sum(seen && running_max == -kInfinity<T> ? std::numeric_limits<T>::quiet_NaN() : running_sum) {
    const hn::CappedTag<T, 1> d;
    inverse = hn::GetLane(InverseSums(d, hn::Set(d, max), hn::Set(d, running_sum), hn::Set(d, seen ? T{1} : T{0})));
  }
};

template <class T>
HWY_INLINE void WriteStatistics(const ForwardArgs<T>& args, index_t head, index_t query, const FinalRow<T>& row) {
  const auto write = [&](const RowPlane<T>& to, auto value) {
    if (to.data != nullptr) to.data[head * to.head_stride + query * to.query_stride] = value();
  };
  write(args.row_max, [&] { return row.max; });
  write(args.row_sum, [&] { return row.sum; });
  write(args.lse, [&] { return row.sum == T{0} ? -kInfinity<T> : row.max + std::log(row.sum); });
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
