// Additive bias and boolean mask of one pair of tiles, as one tile of numbers in which -infinity means hidden.

#if defined(MULTIHEAD_KERNELS_BIAS_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_BIAS_TILE_INL
#undef MULTIHEAD_KERNELS_BIAS_TILE_INL
#else
#define MULTIHEAD_KERNELS_BIAS_TILE_INL
#endif

#include <cstring>

#include "hwy/highway.h"
#include "kernels/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE bool HasBiasTile(const Scores<T>& scores) {
  return scores.bias.data != nullptr || scores.visible.data != nullptr;
}

/// What bias and mask say about a pair of tiles.
enum class BiasTile { none, hides_all, filled };

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
HWY_INLINE void BiasRow(const Scores<T>& scores, const Lanes<T>& lanes, index_t n, const KeyRange& keys,
                        T* HWY_RESTRICT out) {
  if (scores.bias.data != nullptr) {
    const T* row = PlaneRow(scores.bias, lanes, n, keys);
    for (index_t j = keys.begin; j < keys.end; ++j) out[j] = row[j * scores.bias.key_stride];
  } else {
    std::fill(out + keys.begin, out + keys.end, T{0});
  }
  if (scores.visible.data == nullptr) return;
  const bool* row = PlaneRow(scores.visible, lanes, n, keys);
  const index_t stride = scores.visible.key_stride;
  if (stride == 1) {
    HideRow(row, keys.begin, keys.end, out);
  } else {
    for (index_t j = keys.begin; j < keys.end; ++j) out[j] = row[j * stride] ? out[j] : -kInfinity<T>;
  }
}

/// Whether a boolean mask without a bias shows these lanes all keys.
template <class T>
HWY_INLINE bool ShowsAll(const Scores<T>& scores, const Lanes<T>& lanes, const KeyRange& keys) {
  if (scores.bias.data != nullptr || scores.visible.key_stride != 1) return false;
  for (index_t n = 0; n < lanes.num_rows; ++n) {
    const bool* row = PlaneRow(scores.visible, lanes, n, keys);
    if (std::memchr(row + keys.begin, 0, static_cast<std::size_t>(keys.end - keys.begin)) != nullptr) return false;
    if (scores.visible.query_stride == 0 && scores.visible.head_stride == 0) break;  // one row for all
  }
  return true;
}

/// Fills bias_tile[key][lane]; `rows` is room for kTileLanes * kKeysPerTile numbers.
template <class T>
HWY_NOINLINE BiasTile BuildBiasTile(const Scores<T>& scores, const Lanes<T>& lanes, const KeyRange& keys,
                                    T* HWY_RESTRICT bias_tile, T* HWY_RESTRICT rows) {
  if (!HasBiasTile(scores) || ShowsAll(scores, lanes, keys)) return BiasTile::none;
  const Plane<const T>& bias = scores.bias;
  const Plane<const bool>& visible = scores.visible;
  const bool one_row = (bias.data == nullptr || (bias.query_stride == 0 && bias.head_stride == 0)) &&
                       (visible.data == nullptr || (visible.query_stride == 0 && visible.head_stride == 0));
  const index_t used = lanes.num_vectors * kVectorLanes<T>;
  const Tag<T> d;
  if (one_row) {
    BiasRow(scores, lanes, 0, keys, rows);
    for (index_t j = keys.begin; j < keys.end; ++j) {
      for (index_t n = 0; n < used; n += kVectorLanes<T>) {
        hn::StoreU(hn::Set(d, rows[j]), d, bias_tile + j * kTileLanes<T> + n);
      }
    }
  } else {
    const T* row_of[kMaxLanes];
    const bool in_place = visible.data == nullptr && bias.key_stride == 1;
    for (index_t n = 0; n < lanes.num_rows; ++n) {
      if (in_place) {
        row_of[n] = PlaneRow(bias, lanes, n, keys) + keys.begin;
      } else {
        BiasRow(scores, lanes, n, keys, rows + n * kKeysPerTile);
        row_of[n] = rows + n * kKeysPerTile + keys.begin;
      }
    }
    RowsToTile(row_of, lanes.num_rows, used, keys.end - keys.begin, T{1}, bias_tile + keys.begin * kTileLanes<T>,
               kTileLanes<T>);
  }
  const auto hidden = hn::Set(d, -kInfinity<T>);
  for (index_t j = keys.begin; j < keys.end; ++j) {
    for (index_t n = 0; n < used; n += kVectorLanes<T>) {
      if (!hn::AllTrue(d, hn::Eq(hn::LoadU(d, bias_tile + j * kTileLanes<T> + n), hidden))) return BiasTile::filled;
    }
  }
  return BiasTile::hides_all;
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
