// Dot products of pairs of rows: delta = dout.out of the backward, docs/algorithm.md (8).

#if defined(MULTIHEAD_KERNELS_PRODUCT_ROW_DOTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_PRODUCT_ROW_DOTS_INL
#undef MULTIHEAD_KERNELS_PRODUCT_ROW_DOTS_INL
#else
#define MULTIHEAD_KERNELS_PRODUCT_ROW_DOTS_INL
#endif

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/convert-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// sum_d a[d] * b[d], one sum a lane. Where b is 0 nothing is read into the sum: an empty row's out is 0, and whatever
/// stands in its dout has no effect.
template <class T, class A, class B>
HWY_INLINE T RowDot(const A* HWY_RESTRICT a, const B* HWY_RESTRICT b, index_t width) {
  const Tag<T> d;
  auto sum = hn::Zero(d);
  const auto add = [&](auto x, auto y)
                       HWY_ATTR { sum = hn::IfThenElse(hn::Eq(y, hn::Zero(d)), sum, hn::MulAdd(x, y, sum)); };
  index_t f = 0;
  for (; f + kVectorLanes<T> <= width; f += kVectorLanes<T>) add(LoadAs(d, a + f), LoadAs(d, b + f));
  if (f < width) add(LoadAs(d, a + f, width - f), LoadAs(d, b + f, width - f));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

template <class T>
void RowDots(const RowDotsArgs<T>& args) {
  WithType<T>(args.a.dtype, args.a.data, [&](const auto* a) HWY_ATTR {
    WithType<T>(args.b.dtype, args.b.data, [&](const auto* b) HWY_ATTR {
      for (index_t n = 0; n < args.num_rows; ++n) {
        args.out[n * args.out_stride] = RowDot<T>(a + n * args.a.token_stride, b + n * args.b.token_stride, args.width);
      }
    });
  });
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
