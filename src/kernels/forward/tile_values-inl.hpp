// The values of a key tile, weighted by P of a query tile: O = O * factor + V^T P.

#if defined(MULTIHEAD_KERNELS_FORWARD_TILE_VALUES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_FORWARD_TILE_VALUES_INL
#undef MULTIHEAD_KERNELS_FORWARD_TILE_VALUES_INL
#else
#define MULTIHEAD_KERNELS_FORWARD_TILE_VALUES_INL
#endif

#include "hwy/highway.h"
#include "kernels/product/micro_kernel-inl.hpp"
#include "kernels/product/prefetcher-inl.hpp"
#include "kernels/product/walk-inl.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/tile/key_tile-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// One pair of tiles. The sum of a tile starts from zero, so that a long sum is one of tiles.
template <class T>
struct TileValues {
  static constexpr Fixed<kTileLanes<T>> kRow{};
  [[maybe_unused]] static constexpr index_t kWide = 192;  // values that are walked by columns from the L2
  const T* tile;                                          // P[key][lane]
  const TileRows<T>& rows;
  index_t width;  // head_dim_v
  RowPrefetcher* prefetcher;

  /// O = O * factor + V^T P.
  template <int NV>
  HWY_INLINE void Add(const Cuts& cuts, bool has_values, bool raised, const T* factor, T* acc) const {
    if (!has_values) {
      Sum<NV>(cuts, acc, Nothing());
    } else if (raised) {
      Sum<NV>(cuts, acc, AddScaled<T>{factor});
    } else {
      Sum<NV>(cuts, acc, AddTo());
    }
  }

  template <int NV, class Finish>
  HWY_INLINE void Sum(const Cuts& cuts, T* acc, Finish then) const {
    const index_t begin = cuts.at[0], end = cuts.at[NV];
    const ThenPrefetch<Finish> finish{then, prefetcher};
    if constexpr (NV > 1) {
      if (cuts.at[1] < end) {
        return CutProduct<NV>(width, cuts.at, rows.data, One(), rows.stride, tile, kRow, acc, kRow, finish);
      }
    }
    const auto product = [&](auto walk) HWY_ATTR {
      Product<NV>(width, end - begin, rows.data + begin * rows.stride, One(), rows.stride, tile + begin * kRow, kRow,
                  acc, kRow, SetZero(), finish, walk);
    };
#if HWY_TARGET <= HWY_AVX3
    if constexpr (NV == kNumVectors) {
      if (width >= kWide) return product(PrefetchColumns<T>());
    }
#endif
    product(Whole());
  }
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
