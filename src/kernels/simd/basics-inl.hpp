// What all kernels share: vector type, lanes, cache lines, infinity, padded widths.

#if defined(MULTIHEAD_KERNELS_SIMD_BASICS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_SIMD_BASICS_INL
#undef MULTIHEAD_KERNELS_SIMD_BASICS_INL
#else
#define MULTIHEAD_KERNELS_SIMD_BASICS_INL
#endif

#include <limits>
#include <type_traits>

#include "core/ceil_div.hpp"
#include "hwy/highway.h"
#include "multihead/types.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;

/// Lanes of one vector. Targets with vectors of unknown length are disabled (kernels_f32.cpp).
template <class T>
inline constexpr index_t kVectorLanes = HWY_LANES(T);

/// A full tile is kNumVectors vectors of lanes wide.
inline constexpr int kNumVectors = 3;
template <class T>
inline constexpr index_t kTileLanes = kNumVectors * kVectorLanes<T>;

/// fn(integral_constant<int, NV>) for NV = num_vectors: a tile's width as a template argument.
template <class Fn>
HWY_INLINE auto WithNumVectors(index_t num_vectors, const Fn& fn) {
  static_assert(kNumVectors == 3);
  switch (num_vectors) {
    case 1: return fn(std::integral_constant<int, 1>());
    case 2: return fn(std::integral_constant<int, 2>());
    default: return fn(std::integral_constant<int, 3>());
  }
}

/// A cache line, in bytes and in elements.
inline constexpr index_t kLineBytes = 64;
template <class T>
inline constexpr index_t kLineElements = kLineBytes / static_cast<index_t>(sizeof(T));

template <class T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();

/// The storage type that needs no conversion.
template <class T>
inline constexpr DType kDType = sizeof(T) == 8 ? DType::f64 : DType::f32;

/// Length of a row in whole vectors.
template <class T>
HWY_INLINE index_t VectorWidth(index_t width) {
  return round_up(width, kVectorLanes<T>);
}

/// Width of a copied row: an odd number of cache lines, so that rows walk through all sets of the L1.
template <class T>
HWY_INLINE index_t PaddedWidth(index_t width) {
  return (ceil_div(width, kLineElements<T>) | 1) * kLineElements<T>;
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
