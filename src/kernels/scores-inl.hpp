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
#include "kernels/bias_tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// c*tanh(s/c). hwy's Tanh is within 4 ulp.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Softcap(D d, V s, hn::TFromD<D> softcap) {
  using T = hn::TFromD<D>;
  constexpr T kFar = 20, kMost = std::numeric_limits<T>::max() / kFar;  // tanh is 1 from there on
  const auto cap = hn::Set(d, softcap), far = hn::Set(d, std::min(softcap, kMost) * kFar);
  const auto near = hn::Clamp(s, hn::Neg(far), far);
  const auto capped = hn::Mul(cap, hn::Tanh(d, hn::Div(near, cap)));
  return hn::IfThenElse(hn::IsNaN(s), s, capped);
}

/// s - slope * |position - key|.
template <class V>
HWY_INLINE V AddAlibi(V s, V slope, V position, V key) {
  return hn::NegMulAdd(slope, hn::Abs(hn::Sub(position, key)), s);
}

/// A key relative to the first one of its tile, as a number.
template <class T>
HWY_INLINE T RelativeKey(const KeyRange& keys, index_t j) {
  return static_cast<T>(std::clamp<index_t>(j - keys.origin, 0, kKeysPerForwardTile));
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
    FillLanes(lanes, begin, T{0}, [&](index_t n) { return RelativeKey<T>(keys, lanes.begin[n]); });
    FillLanes(lanes, end, T{0}, [&](index_t n) { return RelativeKey<T>(keys, lanes.end[n]); });
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
      visible = hn::AndNot(IsHidden(d, bias), visible);
    }
    return visible;
  }

  HWY_INLINE bool VisibleAt(index_t j, index_t n) const {
    const T key = static_cast<T>(j);
    return key >= begin[n] && key < end[n] &&
           (bias_tile == nullptr || bias_tile[j * kTileLanes<T> + n] != -kInfinity<T>);
  }

  /// Bias and ALiBi.
  template <class D, class V>
  HWY_INLINE V Add(D d, V s, index_t j, index_t n) const {
    if (bias_tile != nullptr) s = hn::Add(s, hn::LoadU(d, bias_tile + j * kTileLanes<T> + n));
    if (scores.alibi_slopes != nullptr) {
      s = AddAlibi(s, hn::LoadU(d, slope + n), hn::LoadU(d, position + n), hn::Set(d, static_cast<T>(j)));
    }
    return s;
  }

  /// Applies all of it to tile[key][lane]; raises tile_max and seen.
  HWY_NOINLINE void Apply(const KeyRange& keys, int num_vectors, const Cuts& cuts, T* HWY_RESTRICT tile,
                          T* HWY_RESTRICT tile_max, T* HWY_RESTRICT seen) const {
    const Tag<T> d;
    const auto hidden = hn::Set(d, -kInfinity<T>), one = hn::Set(d, T{1});
    for (int v = 0; v < num_vectors; ++v) {
      const index_t n = v * kVectorLanes<T>;
      auto max = hn::LoadU(d, tile_max + n), met = hn::LoadU(d, seen + n);
      for (index_t j = keys.begin; j < std::min(keys.end, cuts.at[v + 1]); ++j) {
        T* HWY_RESTRICT at = tile + j * kTileLanes<T> + n;
        auto s = hn::LoadU(d, at);
        if (scores.softcap != T{0}) s = Softcap(d, s, scores.softcap);
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

/// The keys of a tile that need nothing but, perhaps, its bias tile: no softcap, no ALiBi, inside every lane's
/// interval. The rims on both sides, possibly all keys, need ScoreModifier.
template <class T>
HWY_INLINE KeyRange PlainKeys(const Scores<T>& scores, const Lanes<T>& lanes, const KeyRange& keys) {
  if (scores.softcap != T{0} || scores.alibi_slopes != nullptr) return {keys.origin, keys.begin, keys.begin};
  const index_t begin = std::clamp(lanes.last_begin - keys.origin, keys.begin, keys.end);
  return {keys.origin, begin, std::clamp(lanes.first_end - keys.origin, begin, keys.end)};
}

template <class T>
HWY_INLINE bool IsPlain(const Scores<T>& scores, const Lanes<T>& lanes, const KeyRange& keys) {
  const KeyRange plain = PlainKeys(scores, lanes, keys);
  return plain.begin == keys.begin && plain.end == keys.end;
}

/// End of the product with plain keys that have a bias, as ScoreModifier::Apply would do it: C += bias, hidden where
/// that is -infinity, whatever the product was; raises max and seen.
template <class T>
struct AddBias {
  const T* bias;   // of the product's first row
  const T* first;  // where that row goes; rows are those of a tile
  T *max, *seen;
  template <int MR, int NV, class D>
  HWY_INLINE void Block(D d, hn::Vec<D> (&sum)[MR][NV], const T* c) const {
    const auto hidden = hn::Set(d, -kInfinity<T>);
    const T* const at = bias + (c - first);
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      const index_t n = v * kVectorLanes<T>;
      auto largest = hn::LoadU(d, max + n), met = hn::LoadU(d, seen + n);
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) {
        const auto b = hn::LoadU(d, at + r * kTileLanes<T> + n);
        const auto hide = IsHidden(d, b);
        sum[r][v] = hn::IfThenElse(hide, hidden, hn::Add(sum[r][v], b));
        met = hn::IfThenElse(hide, met, hn::Set(d, T{1}));
        largest = hn::Max(sum[r][v], largest);
      }
      hn::StoreU(largest, d, max + n);
      hn::StoreU(met, d, seen + n);
    }
  }
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
