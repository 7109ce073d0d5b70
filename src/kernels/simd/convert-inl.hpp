// Storage types <-> the arithmetic type, one row at a time. f32 of bf16 and f16 is exact; back, round to nearest even.

#if defined(MULTIHEAD_KERNELS_SIMD_CONVERT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_SIMD_CONVERT_INL
#undef MULTIHEAD_KERNELS_SIMD_CONVERT_INL
#else
#define MULTIHEAD_KERNELS_SIMD_CONVERT_INL
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/simd/basics-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls fn(const S*) with the storage type of `dtype`; f64 for T = double.
template <class T, class Fn>
HWY_INLINE void WithType(DType dtype, const void* data, const Fn& fn) {
  if constexpr (sizeof(T) == 8) {
    fn(static_cast<const double*>(data));
  } else if (dtype == DType::f32) {
    fn(static_cast<const float*>(data));
  } else if (dtype == DType::bf16) {
    fn(static_cast<const bf16*>(data));
  } else {
    fn(static_cast<const f16*>(data));
  }
}

HWY_INLINE void LoadRow(const float* from, index_t width, float* HWY_RESTRICT to) {
  std::memcpy(to, from, static_cast<std::size_t>(width) * sizeof(float));
}
HWY_INLINE void LoadRow(const double* from, index_t width, double* HWY_RESTRICT to) {
  std::memcpy(to, from, static_cast<std::size_t>(width) * sizeof(double));
}
HWY_INLINE void LoadRow(const bf16* from, index_t width, float* HWY_RESTRICT to) {
  for (index_t f = 0; f < width; ++f) to[f] = to_float(from[f]);  // a shift: the compiler makes vectors of it
}
HWY_INLINE void LoadRow(const f16* from, index_t width, float* HWY_RESTRICT to) {
  index_t f = 0;
#if HWY_ARCH_ARM || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)  // conversion by the CPU; emulated ones lose infinity
  const Tag<float> d;
  const hn::Rebind<hwy::float16_t, Tag<float>> dh;
  for (; f + kVectorLanes<float> <= width; f += kVectorLanes<float>) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from + f))), d, to + f);
  }
#endif
  for (; f < width; ++f) to[f] = to_float(from[f]);
}

HWY_INLINE void StoreRow(const float* from, index_t width, float* to) {
  std::memcpy(to, from, static_cast<std::size_t>(width) * sizeof(float));
}
HWY_INLINE void StoreRow(const double* from, index_t width, double* to) {
  std::memcpy(to, from, static_cast<std::size_t>(width) * sizeof(double));
}
HWY_INLINE void StoreRow(const float* from, index_t width, bf16* to) {
  for (index_t f = 0; f < width; ++f) to[f] = to_bf16(from[f]);
}
HWY_INLINE void StoreRow(const float* from, index_t width, f16* to) {
  for (index_t f = 0; f < width; ++f) to[f] = to_f16(from[f]);
}

/// One vector of T from its storage, converted in registers.
template <class D>
HWY_INLINE hn::Vec<D> LoadAs(D d, const hn::TFromD<D>* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadAs(D d, const bf16* from) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint16_t, D> dh;
  return hn::BitCast(d,
                     hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, reinterpret_cast<const std::uint16_t*>(from)))));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadAs(D d, const f16* from) {
#if HWY_ARCH_ARM || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  float numbers[kVectorLanes<float>];
  LoadRow(from, kVectorLanes<float>, numbers);
  return hn::LoadU(d, numbers);
#endif
}

/// The first `count` lanes from memory, the others 0; nothing behind them is read.
template <class D, class S>
HWY_INLINE hn::Vec<D> LoadAs(D d, const S* from, index_t count) {
  hn::TFromD<D> numbers[kVectorLanes<hn::TFromD<D>>] = {};
  LoadRow(from, count, numbers);
  return hn::LoadU(d, numbers);
}

/// Address of row `token` of head `head`.
template <class R>
HWY_INLINE index_t RowOffset(const R& rows, index_t token, index_t head) {
  return token * rows.token_stride + head * rows.head_stride;
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
