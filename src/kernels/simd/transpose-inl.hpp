// Rows in memory <-> columns of a tile: tile[feature][lane] = row[lane][feature].
//
// Full vectors go through registers in 4x4 blocks of f32; what is left, and f64, through plain loops.

#if defined(MULTIHEAD_KERNELS_SIMD_TRANSPOSE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_SIMD_TRANSPOSE_INL
#undef MULTIHEAD_KERNELS_SIMD_TRANSPOSE_INL
#else
#define MULTIHEAD_KERNELS_SIMD_TRANSPOSE_INL
#endif

#include "hwy/highway.h"
#include "kernels/simd/basics-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

/// One vector of four consecutive floats from each of rows[0], rows[4], rows[8], ... starting at feature f.
template <class D>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const float* const* rows, index_t f) {
  if constexpr (HWY_LANES(float) == 4 || hn::MaxLanes(d) == 4) {
    return hn::LoadU(d, rows[0] + f);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, LoadBlocks(half, rows + hn::MaxLanes(half), f), LoadBlocks(half, rows, f));
  }
}

/// Eight consecutive floats to each of rows[0], rows[4], ..., features f to f + 3 from x and the rest from y. Whole
/// vectors: the store of a line that is not near waits in order, and half as many stores wait.
template <class D>
HWY_INLINE void StoreBlocks(D d, hn::Vec<D> x, hn::Vec<D> y, float* const* rows, index_t f) {
  if constexpr (HWY_LANES(float) == 4 || hn::MaxLanes(d) == 4) {
    hn::StoreU(x, d, rows[0] + f);
    hn::StoreU(y, d, rows[0] + f + 4);
  } else if constexpr (hn::MaxLanes(d) == 8) {
    hn::StoreU(hn::ConcatLowerLower(d, y, x), d, rows[0] + f);
    hn::StoreU(hn::ConcatUpperUpper(d, y, x), d, rows[4] + f);
  } else {
    const hn::Half<D> half;
    StoreBlocks(half, hn::LowerHalf(half, x), hn::LowerHalf(half, y), rows, f);
    StoreBlocks(half, hn::UpperHalf(half, x), hn::UpperHalf(half, y), rows + hn::MaxLanes(half), f);
  }
}

/// The 4x4 transpose within each 128-bit block: out[r] lane c of a block = in[c] lane r of that block.
template <class D>
HWY_INLINE void TransposeBlocks(D d, hn::Vec<D> (&x)[4]) {
  const hn::RepartitionToWide<D> dw;
  const auto low02 = hn::InterleaveLower(d, x[0], x[1]);
  const auto high02 = hn::InterleaveUpper(d, x[0], x[1]);
  const auto low13 = hn::InterleaveLower(d, x[2], x[3]);
  const auto high13 = hn::InterleaveUpper(d, x[2], x[3]);
  x[0] = hn::BitCast(d, hn::InterleaveLower(dw, hn::BitCast(dw, low02), hn::BitCast(dw, low13)));
  x[1] = hn::BitCast(d, hn::InterleaveUpper(dw, hn::BitCast(dw, low02), hn::BitCast(dw, low13)));
  x[2] = hn::BitCast(d, hn::InterleaveLower(dw, hn::BitCast(dw, high02), hn::BitCast(dw, high13)));
  x[3] = hn::BitCast(d, hn::InterleaveUpper(dw, hn::BitCast(dw, high02), hn::BitCast(dw, high13)));
}

#endif  // HWY_TARGET != HWY_SCALAR

/// tile[f * tile_row + lane] = rows[lane][f] * factor for f < width, lane < num_rows; lanes up to `lanes` become 0.
template <class T>
HWY_INLINE void RowsToTile(const T* const* rows, index_t num_rows, index_t lanes, index_t width, T factor,
                           T* HWY_RESTRICT tile, index_t tile_row) {
  index_t lane = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 4) {
    const Tag<T> d;
    const auto scale = hn::Set(d, factor);
    for (; lane + kVectorLanes<T> <= num_rows; lane += kVectorLanes<T>) {
      index_t f = 0;
      for (; f + 4 <= width; f += 4) {
        hn::Vec<Tag<T>> x[4];
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) x[r] = LoadBlocks(d, rows + lane + r, f);
        TransposeBlocks(d, x);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) hn::StoreU(hn::Mul(x[r], scale), d, tile + (f + r) * tile_row + lane);
      }
      for (; f < width; ++f) {
        for (index_t l = lane; l < lane + kVectorLanes<T>; ++l) tile[f * tile_row + l] = rows[l][f] * factor;
      }
    }
  }
#endif
  if (lane >= lanes) return;
  for (index_t f = 0; f < width; ++f) {
    for (index_t l = lane; l < num_rows; ++l) tile[f * tile_row + l] = rows[l][f] * factor;
    for (index_t l = num_rows; l < lanes; ++l) tile[f * tile_row + l] = T{0};
  }
}

/// What numbers of a lane are multiplied by on their way out of a tile.
struct Unscaled {
  template <class D>
  HWY_INLINE hn::Vec<D> Scale(D, hn::Vec<D> x, index_t) const {
    return x;
  }
  template <class T>
  HWY_INLINE T ScaleOne(T x, index_t) const {
    return x;
  }
};
template <class T>
struct LaneFactors {
  const T* factor;
  template <class D>
  HWY_INLINE hn::Vec<D> Scale(D d, hn::Vec<D> x, index_t lane) const {
    return hn::Mul(x, hn::LoadU(d, factor + lane));
  }
  HWY_INLINE T ScaleOne(T x, index_t lane) const { return x * factor[lane]; }
};

/// rows[lane][f] = tile[f * tile_row + lane], scaled, for f < width, lane < num_rows. Null rows are skipped.
template <class T, class Scaling>
HWY_INLINE void TileToRows(const T* HWY_RESTRICT tile, index_t tile_row, index_t num_rows, index_t width,
                           const Scaling& scaling, T* const* rows) {
  index_t lane = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 4) {
    const Tag<T> d;
    for (; lane + kVectorLanes<T> <= num_rows; lane += kVectorLanes<T>) {
      bool all = true;
      for (index_t l = 0; l < kVectorLanes<T>; ++l) all = all && rows[lane + l] != nullptr;
      if (!all) break;
      index_t f = 0;
      for (; f + 8 <= width; f += 8) {
        hn::Vec<Tag<T>> x[4], y[4];
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) {
          x[r] = scaling.Scale(d, hn::LoadU(d, tile + (f + r) * tile_row + lane), lane);
          y[r] = scaling.Scale(d, hn::LoadU(d, tile + (f + 4 + r) * tile_row + lane), lane);
        }
        TransposeBlocks(d, x);
        TransposeBlocks(d, y);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) StoreBlocks(d, x[r], y[r], rows + lane + r, f);
      }
      for (; f < width; ++f) {
        for (index_t l = lane; l < lane + kVectorLanes<T>; ++l) {
          rows[l][f] = scaling.ScaleOne(tile[f * tile_row + l], l);
        }
      }
    }
  }
#endif
  for (; lane < num_rows; ++lane) {
    if (rows[lane] == nullptr) continue;
    for (index_t f = 0; f < width; ++f) rows[lane][f] = scaling.ScaleOne(tile[f * tile_row + lane], lane);
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
