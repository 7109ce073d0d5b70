// The projection product: rows of A against one packed panel of B.

#if defined(MULTIHEAD_KERNELS_MATMUL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_MATMUL_INL
#undef MULTIHEAD_KERNELS_MATMUL_INL
#else
#define MULTIHEAD_KERNELS_MATMUL_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/transpose-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T, class ARow, class AK>
HWY_INLINE void MatmulRows(const MatmulArgs<T>& args, ARow a_row, AK a_k) {
  constexpr index_t kLanes = kTileLanes<T>;
  const auto rows_of = [&](index_t first, index_t rows, T* c, index_t c_row) HWY_ATTR {
    Product<kNumVectors>(rows, args.k, args.a + first * a_row, a_row, a_k, args.b, kLanes, c, c_row, Accumulate(),
                         Nothing());
  };
  if (args.n == kLanes) {
    rows_of(0, args.m, args.c, args.c_row);
    return;
  }
  // The last panel is narrower than its lanes: through a buffer of full rows.
  constexpr index_t kRows = 32;
  alignas(64) T buffer[kRows * kMaxLanes] = {};
  for (index_t first = 0; first < args.m; first += kRows) {
    const index_t rows = std::min(kRows, args.m - first);
    for (index_t r = 0; r < rows; ++r) std::copy_n(args.c + (first + r) * args.c_row, args.n, buffer + r * kLanes);
    rows_of(first, rows, buffer, kLanes);
    for (index_t r = 0; r < rows; ++r) std::copy_n(buffer + r * kLanes, args.n, args.c + (first + r) * args.c_row);
  }
}

template <class T>
void PackPanel(const PackArgs<T>& args) {
  constexpr index_t kLanes = kTileLanes<T>;
  if (args.k_stride == 1) {
    const T* rows[kMaxLanes];
    for (index_t n = 0; n < args.n; ++n) rows[n] = args.b + n * args.n_stride;
    RowsToTile(rows, args.n, kLanes, args.k, T{1}, args.panel, kLanes);
    return;
  }
  for (index_t k = 0; k < args.k; ++k) {
    T* HWY_RESTRICT to = args.panel + k * kLanes;
    for (index_t n = 0; n < args.n; ++n) to[n] = args.b[n * args.n_stride + k * args.k_stride];
    std::fill(to + args.n, to + kLanes, T{0});
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
