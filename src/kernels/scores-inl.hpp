// What happens to a tile of scores between the product with the keys and the exponential:
//
//   softcap, additive bias and ALiBi, mask          tile[key][lane], keys [begin, end) of the tile that starts at
//   `origin`
//
// Bias and boolean mask become one tile of numbers in which -infinity means hidden: one mechanism, one path.

#if defined(MULTIHEAD_KERNELS_SCORES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_SCORES_INL
#undef MULTIHEAD_KERNELS_SCORES_INL
#else
#define MULTIHEAD_KERNELS_SCORES_INL
#endif

#include <cmath>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Keys [begin, end) of a key tile for one query tile, relative to the tile's first key `origin`.
struct KeyRange {
  index_t origin, begin, end;
};

template <class T>
HWY_INLINE bool HasBiasTile(const Scores<T>& scores) {
  return scores.bias.data != nullptr || scores.visible.data != nullptr;
}

/// out[key] = the bias of one row, -infinity where it is hidden.
template <class T>
HWY_INLINE void BiasRow(const Scores<T>& scores, const KeyRange& keys, index_t head, index_t query,
                        T* HWY_RESTRICT out) {
  const Plane<const T>& bias = scores.bias;
  const Plane<const bool>& visible = scores.visible;
  if (bias.data != nullptr) {
    const T* row = bias.data + head * bias.head_stride + query * bias.query_stride + keys.origin * bias.key_stride;
    for (index_t j = keys.begin; j < keys.end; ++j) out[j] = row[j * bias.key_stride];
  } else {
    for (index_t j = keys.begin; j < keys.end; ++j) out[j] = T{0};
  }
  if (visible.data != nullptr) {
    const bool* row =
        visible.data + head * visible.head_stride + query * visible.query_stride + keys.origin * visible.key_stride;
    for (index_t j = keys.begin; j < keys.end; ++j) out[j] = row[j * visible.key_stride] ? out[j] : -kInfinity<T>;
  }
}

/// Fills bias_tile[key][lane]; `rows` is room for kTileLanes * kKeysPerTile numbers. False when every key is hidden.
template <class T>
HWY_NOINLINE bool BuildBiasTile(const Scores<T>& scores, const Lanes<T>& lanes, const KeyRange& keys,
                                T* HWY_RESTRICT bias_tile, T* HWY_RESTRICT rows) {
  const Plane<const T>& bias = scores.bias;
  const Plane<const bool>& visible = scores.visible;
  const bool one_row = (bias.data == nullptr || (bias.query_stride == 0 && bias.head_stride == 0)) &&
                       (visible.data == nullptr || (visible.query_stride == 0 && visible.head_stride == 0));
  const index_t used = lanes.num_vectors * kVectorLanes<T>;
  const Tag<T> d;
  const auto hidden = hn::Set(d, -kInfinity<T>);
  if (one_row) {
    BiasRow(scores, keys, 0, 0, rows);
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
        row_of[n] = bias.data + lanes.head[n] * bias.head_stride + lanes.query[n] * bias.query_stride + keys.origin +
                    keys.begin;
      } else {
        BiasRow(scores, keys, lanes.head[n], lanes.query[n], rows + n * kKeysPerTile);
        row_of[n] = rows + n * kKeysPerTile + keys.begin;
      }
    }
    RowsToTile(row_of, lanes.num_rows, used, keys.end - keys.begin, T{1}, bias_tile + keys.begin * kTileLanes<T>,
               kTileLanes<T>);
  }
  for (index_t j = keys.begin; j < keys.end; ++j) {
    for (index_t n = 0; n < used; n += kVectorLanes<T>) {
      if (!hn::AllTrue(d, hn::Eq(hn::LoadU(d, bias_tile + j * kTileLanes<T> + n), hidden))) return true;
    }
  }
  return false;
}

/// Everything that acts on scores of a tile, in vectors over lanes.
template <class T>
struct ScoreModifier {
  const Scores<T>& scores;
  const T* bias_tile;              // nullptr when there is neither bias nor boolean mask
  alignas(64) T begin[kMaxLanes];  // interval relative to the tile's first key
  alignas(64) T end[kMaxLanes];
  alignas(64) T slope[kMaxLanes];
  alignas(64) T position[kMaxLanes];  // of the query on the diagonal, relative to the tile's first key

  HWY_INLINE ScoreModifier(const Scores<T>& s, const Lanes<T>& lanes, const KeyRange& keys, const T* bias)
      : scores(s), bias_tile(bias) {
    const auto relative = [&](index_t j) {
      return static_cast<T>(std::clamp<index_t>(j - keys.origin, 0, kKeysPerTile));
    };
    FillLanes(lanes, begin, T{0}, [&](index_t n) { return relative(lanes.begin[n]); });
    FillLanes(lanes, end, T{0}, [&](index_t n) { return relative(lanes.end[n]); });
    if (s.alibi_slopes == nullptr) return;
    FillLanes(lanes, slope, T{0}, [&](index_t n) { return s.alibi_slopes[lanes.head[n] * s.alibi_stride]; });
    FillLanes(lanes, position, T{0},
              [&](index_t n) { return static_cast<T>(lanes.query[n] + s.diagonal - keys.origin); });
  }

  template <class D>
  HWY_INLINE hn::Mask<D> Visible(D d, index_t j, index_t n) const {
    const auto key = hn::Set(d, static_cast<T>(j));
    auto visible = hn::And(hn::Ge(key, hn::LoadU(d, begin + n)), hn::Lt(key, hn::LoadU(d, end + n)));
    if (bias_tile != nullptr) {
      const auto bias = hn::LoadU(d, bias_tile + j * kTileLanes<T> + n);
      visible = hn::And(visible, hn::Ne(bias, hn::Set(d, -kInfinity<T>)));
    }
    return visible;
  }

  HWY_INLINE bool VisibleAt(index_t j, index_t n) const {
    const T key = static_cast<T>(j);
    return key >= begin[n] && key < end[n] &&
           (bias_tile == nullptr || bias_tile[j * kTileLanes<T> + n] != -kInfinity<T>);
  }

  /// c*tanh(s/c). hwy's Tanh is within 4 ulp.
  template <class D, class V>
  HWY_INLINE V Softcap(D d, V s) const {
    const auto cap = hn::Set(d, scores.softcap);
    const auto capped = hn::Mul(cap, hn::Tanh(d, hn::Div(s, cap)));
    return hn::IfThenElse(hn::IsNaN(s), s, capped);
  }

  /// Bias and ALiBi.
  template <class D, class V>
  HWY_INLINE V Add(D d, V s, index_t j, index_t n) const {
    if (bias_tile != nullptr) s = hn::Add(s, hn::LoadU(d, bias_tile + j * kTileLanes<T> + n));
    if (scores.alibi_slopes != nullptr) {
      const auto distance = hn::Abs(hn::Sub(hn::LoadU(d, position + n), hn::Set(d, static_cast<T>(j))));
      s = hn::NegMulAdd(hn::LoadU(d, slope + n), distance, s);
    }
    return s;
  }

  /// Applies all of it to tile[key][lane]; raises tile_max and seen.
  HWY_NOINLINE void Apply(const KeyRange& keys, int num_vectors, T* HWY_RESTRICT tile, T* HWY_RESTRICT tile_max,
                          T* HWY_RESTRICT seen) const {
    const Tag<T> d;
    const auto hidden = hn::Set(d, -kInfinity<T>), one = hn::Set(d, T{1});
    for (int v = 0; v < num_vectors; ++v) {
      const index_t n = v * kVectorLanes<T>;
      auto max = hn::LoadU(d, tile_max + n), met = hn::LoadU(d, seen + n);
      for (index_t j = keys.begin; j < keys.end; ++j) {
        T* HWY_RESTRICT at = tile + j * kTileLanes<T> + n;
        auto s = hn::LoadU(d, at);
        if (scores.softcap != T{0}) s = Softcap(d, s);
        s = Add(d, s, j, n);
        const auto visible = Visible(d, j, n);
        s = hn::IfThenElse(visible, s, hidden);
        met = hn::IfThenElse(visible, one, met);
        max = hn::Max(s, max);
        hn::StoreU(s, d, at);
      }
      hn::StoreU(max, d, tile_max + n);
      hn::StoreU(met, d, seen + n);
    }
  }
};

/// Whether a tile needs ScoreModifier at all.
template <class T>
HWY_INLINE bool IsPlain(const Scores<T>& scores, const Lanes<T>& lanes, const KeyRange& keys) {
  return scores.softcap == T{0} && scores.alibi_slopes == nullptr && !HasBiasTile(scores) &&
         lanes.last_begin <= keys.origin + keys.begin && lanes.first_end >= keys.origin + keys.end;
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
