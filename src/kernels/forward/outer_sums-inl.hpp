// The second level of long sums over keys.

#if defined(MULTIHEAD_KERNELS_FORWARD_OUTER_SUMS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_FORWARD_OUTER_SUMS_INL
#undef MULTIHEAD_KERNELS_FORWARD_OUTER_SUMS_INL
#else
#define MULTIHEAD_KERNELS_FORWARD_OUTER_SUMS_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/exp-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The second level of long sums: a query tile's sums over whole folds of kKeysPerFold keys, with the maximum
/// that they are relative to. The error of a sum of n terms is then that of kKeysPerForwardTile + kTilesPerFold + n /
/// kKeysPerFold additions, not of n / kKeysPerForwardTile.
template <class T>
struct OuterSums {
  T *max, *sum, *acc;

  static HWY_INLINE index_t Size(index_t width) { return (2 + width) * kTileLanes<T>; }
  HWY_INLINE explicit OuterSums(T* storage)
      : max(storage), sum(storage + kTileLanes<T>), acc(storage + 2 * kTileLanes<T>) {}

  /// Takes over what a row starts with: its sink.
  HWY_INLINE void Init(const RunningSoftmax<T>& softmax, index_t width) {
    std::copy_n(softmax.max, kTileLanes<T>, max);
    std::copy_n(softmax.sum, kTileLanes<T>, sum);
    std::fill_n(softmax.sum, kTileLanes<T>, T{0});
    std::fill_n(acc, width * kTileLanes<T>, T{0});
  }

  /// Adds the sums of the keys since the last fold, which start from zero again.
  HWY_NOINLINE void Add(const RunningSoftmax<T>& softmax, int num_vectors, const T* HWY_RESTRICT values,
                        index_t width) {
    const Tag<T> d;
    for (index_t n = 0; n < num_vectors * kVectorLanes<T>; n += kVectorLanes<T>) {
      const auto old_max = hn::LoadU(d, max + n), new_max = hn::LoadU(d, softmax.max + n);
      const auto keep = hn::Or(hn::Eq(new_max, old_max), hn::Eq(old_max, hn::Set(d, -kInfinity<T>)));
      const auto from = hn::IfThenZeroElse(keep, old_max), to = hn::IfThenZeroElse(keep, new_max);
      const auto factor = hn::IfThenElse(keep, hn::Set(d, T{1}), ExpMinus(d, from, to));
      hn::StoreU(new_max, d, max + n);
      hn::StoreU(hn::MulAdd(hn::LoadU(d, sum + n), factor, hn::LoadU(d, softmax.sum + n)), d, sum + n);
      hn::StoreU(hn::Zero(d), d, softmax.sum + n);
      for (index_t at = n; at < width * kTileLanes<T>; at += kTileLanes<T>) {
        hn::StoreU(hn::MulAdd(hn::LoadU(d, acc + at), factor, hn::LoadU(d, values + at)), d, acc + at);
      }
    }
  }

  HWY_INLINE void CopyTo(T* sum_to, T* acc_to, index_t width) const {
    std::copy_n(sum, kTileLanes<T>, sum_to);
    std::copy_n(acc, width * kTileLanes<T>, acc_to);
  }
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
