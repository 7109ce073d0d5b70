// Additive bias and boolean mask of one pair of tiles, as one tile of numbers in which -infinity means hidden.

#if defined(MULTIHEAD_KERNELS_TILE_BIAS_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILE_BIAS_TILE_INL
#undef MULTIHEAD_KERNELS_TILE_BIAS_TILE_INL
#else
#define MULTIHEAD_KERNELS_TILE_BIAS_TILE_INL
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/transpose-inl.hpp"
#include "kernels/tile/bias-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE bool HasBiasTile(const HeadProblem<T>& problem) {
  return problem.bias.data != nullptr || problem.visible.data != nullptr;
}

/// What bias and mask say about a pair of tiles.
enum class BiasKind { none, hides_all, filled };

/// The row of a plane at a lane's head and query, from key keys.origin on.
template <class P, class T>
HWY_INLINE auto* PlaneRow(const P& plane, const Lanes<T>& lanes, index_t n, const KeyRange& keys) {
  return plane.data + lanes.head[n] * plane.head_stride + lanes.query[n] * plane.query_stride +
         keys.origin * plane.key_stride;
}

/// out[j] = -infinity where row[j] is false, for j in [begin, end).
template <class T>
HWY_INLINE void HideRow(const bool* row, index_t begin, index_t end, T* HWY_RESTRICT out) {
  index_t j = begin;
  if constexpr (sizeof(T) == 4) {
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> di;
    const hn::Rebind<std::uint8_t, Tag<T>> d8;
    const auto hidden = hn::Set(d, -kInfinity<T>);
    for (; j + kVectorLanes<T> <= end; j += kVectorLanes<T>) {
      const auto bytes = hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const std::uint8_t*>(row + j)));
      const auto hide = hn::RebindMask(d, hn::Eq(bytes, hn::Zero(di)));
      hn::StoreU(hn::IfThenElse(hide, hidden, hn::LoadU(d, out + j)), d, out + j);
    }
  }
  for (; j < end; ++j) out[j] = row[j] ? out[j] : -kInfinity<T>;
}

/// out[key] = the bias of a lane's row, -infinity where it is hidden.
template <class T>
HWY_INLINE void BiasRow(const HeadProblem<T>& problem, const Lanes<T>& lanes, index_t n, const KeyRange& keys,
                        T* HWY_RESTRICT out) {
  if (problem.bias.data != nullptr) {
    WithBias(problem, [&](const auto& plane) HWY_ATTR {
      LoadPlaneKeys(PlaneRow(plane, lanes, n, keys) + keys.begin * plane.key_stride, plane.key_stride,
                    keys.end - keys.begin, out + keys.begin);
    });
  } else {
    std::fill(out + keys.begin, out + keys.end, T{0});
  }
  if (problem.visible.data == nullptr) return;
  const bool* row = PlaneRow(problem.visible, lanes, n, keys);
  const index_t stride = problem.visible.key_stride;
  if (stride == 1) {
    HideRow(row, keys.begin, keys.end, out);
  } else {
    for (index_t j = keys.begin; j < keys.end; ++j) out[j] = row[j * stride] ? out[j] : -kInfinity<T>;
  }
}

/// The rows of a plane that belong to the first `count` lanes of a tile, from key keys.begin on. Keys that lie apart,
/// or are of another type, are copied to `copies`, kKeysPerForwardTile numbers per lane.
template <class S, class E, class T>
HWY_INLINE void PlaneRows(const Plane<const S>& plane, const Lanes<T>& lanes, index_t count, const KeyRange& keys,
                          E* copies, const E** rows) {
  for (index_t n = 0; n < count; ++n) {
    const S* const row = PlaneRow(plane, lanes, n, keys) + keys.begin * plane.key_stride;
    if constexpr (std::is_same_v<S, E>) {
      rows[n] = row;
      if (plane.key_stride == 1) continue;
    }
    E* HWY_RESTRICT copy = copies + n * kKeysPerForwardTile;
    LoadPlaneKeys(row, plane.key_stride, keys.end - keys.begin, copy);
    rows[n] = copy;
  }
}

/// What rows of a boolean mask say. All of them are read before anything depends on it: their lines, far apart, then
/// come from memory side by side.
HWY_INLINE BiasKind SumUpMask(const bool* const* rows, index_t num_rows, index_t width) {
  const hn::ScalableTag<std::uint8_t> d;
  constexpr index_t kBytes = hn::MaxLanes(d);
  auto least = hn::Set(d, 1), most = hn::Zero(d);
  std::uint8_t last_least = 1, last_most = 0;
  for (index_t n = 0; n < num_rows; ++n) {
    const auto* HWY_RESTRICT row = reinterpret_cast<const std::uint8_t*>(rows[n]);
    index_t j = 0;
    for (; j + kBytes <= width; j += kBytes) {
      const auto bytes = hn::LoadU(d, row + j);
      least = hn::Min(least, bytes);
      most = hn::Max(most, bytes);
    }
    for (; j < width; ++j) {
      last_least = std::min(last_least, row[j]);
      last_most = std::max(last_most, row[j]);
    }
  }
  if (last_least != 0 && hn::AllFalse(d, hn::Eq(least, hn::Zero(d)))) return BiasKind::none;
  const bool none_visible = last_most == 0 && hn::AllTrue(d, hn::Eq(most, hn::Zero(d)));
  return none_visible ? BiasKind::hides_all : BiasKind::filled;
}

#if HWY_TARGET != HWY_SCALAR
/// Four consecutive bytes from each of rows[0], rows[4], rows[8], ... starting at byte f.
template <class D>
HWY_INLINE hn::Vec<D> LoadByteBlocks(D d, const bool* const* rows, index_t f) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(rows[0] + f));
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, LoadByteBlocks(half, rows + hn::MaxLanes(half), f), LoadByteBlocks(half, rows, f));
  }
}
#endif

/// tile[key][lane] = -infinity where rows[lane][key] is false; elsewhere it stays, or is 0 when it was not written.
template <bool kWritten, class T>
HWY_INLINE void HideInTile(const bool* const* rows, index_t num_rows, index_t lanes, index_t width,
                           T* HWY_RESTRICT tile) {
  index_t lane = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 4) {
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> di;
    const hn::Rebind<std::uint8_t, Tag<T>> d8;
    const auto hidden = hn::Set(d, -kInfinity<T>);
    for (; lane + kVectorLanes<T> <= num_rows; lane += kVectorLanes<T>) {
      for (index_t j = 0; j + 4 <= width; j += 4) {
        hn::Vec<Tag<T>> x[4];
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) {
          x[r] = hn::BitCast(d, hn::PromoteTo(di, LoadByteBlocks(d8, rows + lane + r, j)));
        }
        TransposeBlocks(d, x);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) {
          T* const at = tile + (j + r) * kTileLanes<T> + lane;
          const auto hide = hn::RebindMask(d, hn::Eq(hn::BitCast(di, x[r]), hn::Zero(di)));
          hn::StoreU(kWritten ? hn::IfThenElse(hide, hidden, hn::LoadU(d, at)) : hn::IfThenElseZero(hide, hidden), d,
                     at);
        }
      }
    }
  }
#endif
  if (lane == lanes && width % 4 == 0) return;
  const index_t quads = lane == 0 ? 0 : width / 4 * 4;  // keys that the whole vectors have
  for (index_t j = 0; j < width; ++j) {
    T* const at = tile + j * kTileLanes<T>;
    for (index_t n = j < quads ? lane : 0; n < num_rows; ++n) {
      at[n] = rows[n][j] ? (kWritten ? at[n] : T{0}) : -kInfinity<T>;
    }
    for (index_t n = num_rows; n < lanes; ++n) at[n] = T{0};
  }
}

/// tile[key][lane] = row[key].
template <class T>
HWY_INLINE void RowToTile(const T* HWY_RESTRICT row, index_t lanes, index_t width, T* HWY_RESTRICT tile) {
  const Tag<T> d;
  for (index_t j = 0; j < width; ++j) {
    for (index_t n = 0; n < lanes; n += kVectorLanes<T>)
      hn::StoreU(hn::Set(d, row[j]), d, tile + j * kTileLanes<T> + n);
  }
}

/// Fills bias_tile[key][lane]; `rows` is room for kTileLanes * kKeysPerForwardTile numbers.
template <class T>
HWY_NOINLINE BiasKind BuildBiasTile(const HeadProblem<T>& problem, const Lanes<T>& lanes, const KeyRange& keys,
                                    T* HWY_RESTRICT bias_tile, T* HWY_RESTRICT rows) {
  if (!HasBiasTile(problem)) return BiasKind::none;
  const auto one_for_all = [](const auto& plane) { return plane.query_stride == 0 && plane.head_stride == 0; };
  const bool with_bias = problem.bias.data != nullptr;
  const index_t used = lanes.num_vectors * kVectorLanes<T>, width = keys.end - keys.begin;
  T* HWY_RESTRICT const tile = bias_tile + keys.begin * kTileLanes<T>;
  if (with_bias) {
    const T* row_of[kMaxLanes];
    const index_t count = one_for_all(problem.bias) ? 1 : lanes.num_rows;
    WithBias(problem, [&](const auto& plane) HWY_ATTR { PlaneRows(plane, lanes, count, keys, rows, row_of); });
    if (one_for_all(problem.bias)) {
      RowToTile(row_of[0], used, width, tile);
    } else {
      RowsToTile(row_of, lanes.num_rows, used, width, T{1}, tile, kTileLanes<T>);
    }
  }
  if (problem.visible.data != nullptr) {
    const bool* row_of[kMaxLanes];
    PlaneRows(problem.visible, lanes, lanes.num_rows, keys, reinterpret_cast<bool*>(rows), row_of);
    const BiasKind mask = SumUpMask(row_of, one_for_all(problem.visible) ? 1 : lanes.num_rows, width);
    if (mask == BiasKind::hides_all || (mask == BiasKind::none && !with_bias)) return mask;
    if (!with_bias) {
      HideInTile<false>(row_of, lanes.num_rows, used, width, tile);
    } else if (mask == BiasKind::filled) {
      HideInTile<true>(row_of, lanes.num_rows, used, width, tile);
    }
  }
  if (!with_bias) return BiasKind::filled;
  const Tag<T> d;
  for (index_t j = 0; j < width; ++j) {
    for (index_t n = 0; n < used; n += kVectorLanes<T>) {
      if (!hn::AllTrue(d, IsHidden(d, hn::LoadU(d, tile + j * kTileLanes<T> + n)))) return BiasKind::filled;
    }
  }
  return BiasKind::hides_all;
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
