// The rows of a tile's lanes: packed from memory into [feature][lane], and written back.

#if defined(MULTIHEAD_KERNELS_TILE_LANE_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILE_LANE_ROWS_INL
#undef MULTIHEAD_KERNELS_TILE_LANE_ROWS_INL
#else
#define MULTIHEAD_KERNELS_TILE_LANE_ROWS_INL
#endif

#include <type_traits>

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/product/prefetcher-inl.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/convert-inl.hpp"
#include "kernels/simd/transpose-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

/// packed[feature][lane] = row of each lane * factor. The lines of `packed` are prefetched at once if they are `far`:
/// written one after the other, each would wait for the L2.
template <class T>
HWY_NOINLINE void PackQueries(const ConstRows& rows, const Lanes<T>& lanes, index_t width, T factor, bool far,
                              T* packed, T* scratch) {
  if (far) PrefetchBurst(ConstRows{packed, kDType<T>}, 0, width * kTileLanes<T>, 0, 1, PrefetchTo::write);
  WithType<T>(rows.dtype, rows.data, [&](const auto* data) HWY_ATTR {
    const T* row_of[kMaxLanes];
    const index_t padded = PaddedWidth<T>(width);
    for (index_t n = 0; n < lanes.num_rows; ++n) {
      const auto* row = data + RowOffset(rows, lanes.query[n], lanes.head[n]);
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(*row)>, T>) {
        row_of[n] = row;
      } else {
        LoadRow(row, width, scratch + n * padded);
        row_of[n] = scratch + n * padded;
      }
    }
    RowsToTile(row_of, lanes.num_rows, lanes.num_vectors * kVectorLanes<T>, width, factor, packed, kTileLanes<T>);
  });
}

/// Writes a row of numbers as the output's type.
template <class T>
HWY_INLINE void WriteRow(const Rows& out, index_t query, index_t head, const T* row, index_t width) {
  WithType<T>(out.dtype, out.data, [&](const auto* data) HWY_ATTR {
    using S = std::remove_cvref_t<decltype(*data)>;
    StoreRow(row, width, const_cast<S*>(data) + RowOffset(out, query, head));
  });
}

/// tile[feature][lane] * factor[lane] to the rows of `out`, in its type.
template <class T>
HWY_NOINLINE void WriteTile(const Rows& out, const Lanes<T>& lanes, index_t width, const T* factor, const T* tile,
                            T* scratch) {
  T* row_of[kMaxLanes];
  const bool direct = out.dtype == kDType<T>;
  const index_t padded = PaddedWidth<T>(width);
  for (index_t n = 0; n < lanes.num_rows; ++n) {
    row_of[n] =
        direct ? static_cast<T*>(out.data) + RowOffset(out, lanes.query[n], lanes.head[n]) : scratch + n * padded;
  }
  TileToRows(tile, kTileLanes<T>, lanes.num_rows, width, LaneFactors<T>{factor}, row_of);
  if (direct) return;
  for (index_t n = 0; n < lanes.num_rows; ++n) WriteRow(out, lanes.query[n], lanes.head[n], row_of[n], width);
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
