// The projection product: rows of A against one packed panel of B.

#if defined(MULTIHEAD_KERNELS_MATMUL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_MATMUL_INL
#undef MULTIHEAD_KERNELS_MATMUL_INL
#else
#define MULTIHEAD_KERNELS_MATMUL_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/micro_kernel-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct AddBias {  // C = bias[lane] + sum
  const T* bias;
  template <class D>
  HWY_INLINE hn::Vec<D> Begin(D d, const T*, index_t lane) const { return hn::LoadU(d, bias + lane); }
};

template <class T, class ARow, class AK>
HWY_INLINE void MatmulRows(const MatmulArgs<T>& args, ARow a_row, AK a_k) {
  constexpr index_t kLanes = kTileLanes<T>;
  alignas(64) T bias[kMaxLanes] = {};
  if (args.bias != nullptr) std::copy_n(args.bias, args.n, bias);
  if (args.n == kLanes) {
    if (args.accumulate) {
      Product<kNumVectors>(args.m, args.k, args.a, a_row, a_k, args.b, kLanes, args.c, args.c_row, Accumulate(), Nothing());
    } else {
      Product<kNumVectors>(args.m, args.k, args.a, a_row, a_k, args.b, kLanes, args.c, args.c_row, AddBias<T>{bias}, Nothing());
    }
    return;
  }
  // The last panel is narrower than its lanes: through a buffer of full rows.
  constexpr index_t kRows = 32;
  alignas(64) T buffer[kRows * kMaxLanes];
  for (index_t first = 0; first < args.m; first += kRows) {
    const index_t rows = std::min(kRows, args.m - first);
    for (index_t r = 0; r < rows; ++r) {
      T* to = buffer + r * kLanes;
      std::copy_n(bias, kLanes, to);
      if (args.accumulate) std::copy_n(args.c + (first + r) * args.c_row, args.n, to);
    }
    Product<kNumVectors>(rows, args.k, args.a + first * a_row, a_row, a_k, args.b, kLanes, buffer, kLanes, Accumulate(),
                         Nothing());
    for (index_t r = 0; r < rows; ++r) std::copy_n(buffer + r * kLanes, args.n, args.c + (first + r) * args.c_row);
  }
}

template <class T>
void MatmulPanel(const MatmulArgs<T>& args) {
  if (args.a_k == 1) {
    MatmulRows(args, args.a_row, One());
  } else if (args.a_row == 1) {
    MatmulRows(args, One(), args.a_k);
  } else {
    MatmulRows(args, args.a_row, args.a_k);
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
