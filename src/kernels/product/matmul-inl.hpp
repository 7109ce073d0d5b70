// The projection product: rows of A against one packed panel of lanes.
//
// Which matrix lies in the lanes is the caller's choice: the result leaves as rows (c_lane = 1), or transposed (c_row =
// 1). Each element is one sum in order of k whichever way it is computed, so the choice changes no bit. What is added
// to c is summed first and added as a whole: a long sum is one of pieces of k.

#if defined(MULTIHEAD_KERNELS_PRODUCT_MATMUL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_PRODUCT_MATMUL_INL
#undef MULTIHEAD_KERNELS_PRODUCT_MATMUL_INL
#else
#define MULTIHEAD_KERNELS_PRODUCT_MATMUL_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/product/micro_kernel-inl.hpp"
#include "kernels/product/walk-inl.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/transpose-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct FromBias {
  const T* bias;  // [lanes]
  template <class D>
  HWY_INLINE hn::Vec<D> Begin(D d, const T*, index_t lane) const {
    return hn::LoadU(d, bias + lane);
  }
};

/// c[num_rows][NV vectors] from rows of a, from `first` on, and the panel.
template <int NV, class Start, class Finish, class T>
HWY_INLINE void MatmulRows(const MatmulArgs<T>& args, index_t first, index_t num_rows, T* c, index_t c_row, Start start,
                           Finish finish) {
  constexpr index_t kLanes = NV * kVectorLanes<T>;
  const auto product = [&](auto a_k, auto walk) HWY_ATTR {
    Product<NV>(num_rows, args.num_k, args.a + first * args.a_row, args.a_row, a_k, args.panel, Fixed<kLanes>(), c,
                c_row, start, finish, walk);
  };
  if (args.a_k != 1) {
    product(args.a_k, PrefetchRows<T>());
  } else if (args.next == nullptr) {
    product(One(), PrefetchRows<T>());
  } else {
    product(One(), PrefetchPanel<T>(args.next, args.num_k * kLanes, num_rows, kRowsPerBlock<NV>, args.num_k));
  }
}

/// tile[row][lanes] = what the sums of rows [first, first + num_rows) start from.
template <class T>
void StartTile(const MatmulArgs<T>& args, index_t first, index_t num_rows, T* HWY_RESTRICT tile, index_t lanes) {
  for (index_t r = 0; r < num_rows; ++r, tile += lanes) {
    const T* const bias = args.bias ? args.bias + (first + r) * args.bias_row : nullptr;
    std::fill_n(tile, lanes, bias ? *bias : T{0});
    if (bias && args.bias_lane != 0) {
      for (index_t l = 0; l < args.num_lanes; ++l) tile[l] = bias[l * args.bias_lane];
    }
  }
}

/// tile[row][lanes] += c
template <class T>
void AddToTile(const MatmulArgs<T>& args, index_t first, index_t num_rows, T* HWY_RESTRICT tile, index_t lanes) {
  for (index_t r = 0; r < num_rows; ++r, tile += lanes) {
    const T* const c = args.c + (first + r) * args.c_row;
    for (index_t l = 0; l < args.num_lanes; ++l) tile[l] += c[l * args.c_lane];
  }
}

/// Through a tile of full lanes: to columns of c, or to the rows of a panel that is not full.
template <int NV, class T>
void MatmulTiles(const MatmulArgs<T>& args) {
  constexpr index_t kRows = 48, kLanes = NV * kVectorLanes<T>;  // 48: whole lines of c, and a multiple of all heights
  alignas(64) T tile[kRows * kLanes];
  for (index_t first = 0; first < args.num_rows; first += kRows) {
    const index_t rows = std::min(kRows, args.num_rows - first);
    T* const c = args.c + first * args.c_row;
    StartTile(args, first, rows, tile, kLanes);
    MatmulRows<NV>(args, first, rows, tile, kLanes, Accumulate(), Nothing());
    if (args.accumulate) AddToTile(args, first, rows, tile, kLanes);
    if (args.c_lane == 1) {
      for (index_t r = 0; r < rows; ++r) std::copy_n(tile + r * kLanes, args.num_lanes, c + r * args.c_row);
    } else {
      T* columns[kMaxLanes];
      for (index_t l = 0; l < args.num_lanes; ++l) columns[l] = c + l * args.c_lane;
      TileToRows(tile, kLanes, args.num_lanes, rows, Unscaled(), columns);
    }
  }
}

template <int NV, class T>
void MatmulPanel(const MatmulArgs<T>& args) {
  const bool through_tile =
      args.c_lane != 1 || args.num_lanes < args.lanes || (args.bias && (args.accumulate || args.bias_lane != 1));
  if (through_tile) {
    MatmulTiles<NV>(args);
  } else if (args.accumulate) {
    MatmulRows<NV>(args, 0, args.num_rows, args.c, args.c_row, SetZero(), AddTo());
  } else {
    static constexpr T kNoBias[kMaxLanes] = {};
    MatmulRows<NV>(args, 0, args.num_rows, args.c, args.c_row, FromBias<T>{args.bias ? args.bias : kNoBias}, Nothing());
  }
}

template <class T>
void MatmulPanel(const MatmulArgs<T>& args) {
  WithNumVectors(args.lanes / kVectorLanes<T>, [&](auto count) HWY_ATTR { MatmulPanel<decltype(count)::value>(args); });
}

template <class T>
void PackPanel(const PackArgs<T>& args) {
  if (args.k_stride == 1) {
    const T* rows[kMaxLanes];
    for (index_t n = 0; n < args.num_rows; ++n) rows[n] = args.rows + n * args.row_stride;
    RowsToTile(rows, args.num_rows, args.lanes, args.num_k, T{1}, args.panel, args.lanes);
    return;
  }
  for (index_t k = 0; k < args.num_k; ++k) {
    const T* const from = args.rows + k * args.k_stride;
    T* HWY_RESTRICT to = args.panel + k * args.lanes;
    if (args.row_stride == 1) {
      std::copy_n(from, args.num_rows, to);
    } else {
      for (index_t n = 0; n < args.num_rows; ++n) to[n] = from[n * args.row_stride];
    }
    std::fill(to + args.num_rows, to + args.lanes, T{0});
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
