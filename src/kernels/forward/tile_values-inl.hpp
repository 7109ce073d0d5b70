// The values of a key tile, weighted by P of a query tile: O = O * factor + V^T P.

#if defined(MULTIHEAD_KERNELS_FORWARD_TILE_VALUES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_FORWARD_TILE_VALUES_INL
#undef MULTIHEAD_KERNELS_FORWARD_TILE_VALUES_INL
#else
#define MULTIHEAD_KERNELS_FORWARD_TILE_VALUES_INL
#endif

#include <algorithm>
#include <type_traits>

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
  Prefetcher* lines;
  T* sums;  // room for [width][lane]

  /// O = O * factor + V^T P. The sum of the tile starts from zero, so that a long sum is one of tiles.
  template <int NV>
  HWY_INLINE void Add(const Cuts& cuts, bool has_values, bool raised, const T* factor, T* acc) const {
    if (cuts.at[1] < cuts.at[NV]) {
      Piece<0, NV>(cuts);
      AddSums(NV, has_values, factor, acc);
    } else if (!has_values) {
      Sum<NV>(cuts.at[0], cuts.at[NV], 0, acc, SetZero(), Nothing());
    } else if (raised) {
      Sum<NV>(cuts.at[0], cuts.at[NV], 0, acc, SetZero(), AddScaled<T>{factor});
    } else {
      Sum<NV>(cuts.at[0], cuts.at[NV], 0, acc, SetZero(), AddTo());
    }
  }

  template <int NV, class Start, class Finish>
  HWY_INLINE void Sum(index_t begin, index_t end, index_t lane, T* to, Start start, Finish finish) const {
    const auto product = [&](auto walk) HWY_ATTR {
      Product<NV>(width, end - begin, rows.data + begin * rows.stride, One(), rows.stride, tile + begin * kRow + lane,
                  kRow, to + lane, kRow, start, ThenPrefetch<Finish>{finish, lines}, walk);
    };
#if HWY_TARGET <= HWY_AVX3
    if constexpr (NV == kNumVectors) {
      if (width >= kWide) return product(PrefetchColumns<T>());
    }
#endif
    product(Whole());
  }

  /// The sum of a tile in pieces: vectors from S on over the keys that vectors before S do not see.
  template <int S, int NV>
  HWY_INLINE void Piece(const Cuts& cuts) const {
    const index_t begin = cuts.at[S], end = cuts.at[S + 1];
    if constexpr (S == 0) {
      if (begin == end) std::fill_n(sums, width * kRow, T{0});
    }
    if (begin < end) {
      using Start = std::conditional_t<S == 0, SetZero, Accumulate>;
      Sum<NV - S>(begin, end, S * kVectorLanes<T>, sums, Start(), Nothing());
    }
    if constexpr (S + 1 < NV) Piece<S + 1, NV>(cuts);
  }

  /// acc = acc * factor + sums
  HWY_NOINLINE void AddSums(int num_vectors, bool has_values, const T* HWY_RESTRICT factor, T* HWY_RESTRICT acc) const {
    const Tag<T> d;
    const T* HWY_RESTRICT from = sums;
    for (index_t f = 0; f < width; ++f, from += kRow, acc += kRow) {
      for (index_t n = 0; n < num_vectors * kVectorLanes<T>; n += kVectorLanes<T>) {
        const auto sum = hn::LoadU(d, from + n);
        hn::StoreU(has_values ? hn::MulAdd(hn::LoadU(d, acc + n), hn::LoadU(d, factor + n), sum) : sum, d, acc + n);
      }
    }
  }
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
