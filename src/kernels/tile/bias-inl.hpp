// The additive bias as it lies in memory: its storage types, and where it hides a key.

#if defined(MULTIHEAD_KERNELS_TILE_BIAS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILE_BIAS_INL
#undef MULTIHEAD_KERNELS_TILE_BIAS_INL
#else
#define MULTIHEAD_KERNELS_TILE_BIAS_INL
#endif

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/convert-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Where a bias hides a key. By equality: NaN is a number to be added, and what Ne says of it differs between targets.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Mask<D> IsHidden(D d, V bias) {
  return hn::Eq(bias, hn::Set(d, -kInfinity<hn::TFromD<D>>));
}

/// Calls fn(Plane<const S>) with the bias in its storage type.
template <class T, class Fn>
HWY_INLINE void WithBias(const HeadProblem<T>& problem, const Fn& fn) {
  WithType<T>(problem.bias_dtype, problem.bias.data, [&]<class S>(const S* data) HWY_ATTR {
    fn(Plane<const S>{data, problem.bias.head_stride, problem.bias.query_stride, problem.bias.key_stride});
  });
}

/// out[j] = element j of a row whose elements are `stride` apart, as T.
template <class S, class T>
HWY_INLINE void LoadPlaneKeys(const S* row, index_t stride, index_t count, T* HWY_RESTRICT out) {
  if (stride == 1) return LoadRow(row, count, out);
  for (index_t j = 0; j < count; ++j) LoadRow(row + j * stride, 1, out + j);
}
HWY_INLINE void LoadPlaneKeys(const bool* row, index_t stride, index_t count, bool* HWY_RESTRICT out) {
  for (index_t j = 0; j < count; ++j) out[j] = row[j * stride];
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
