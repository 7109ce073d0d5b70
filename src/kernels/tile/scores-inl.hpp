// Scores of a tile whose lanes are queries, tile[key][lane], between the product with the keys and the exponential.
//
// Bias and boolean mask are one tile of numbers in which -infinity means hidden (bias_tile-inl.hpp).

#if defined(MULTIHEAD_KERNELS_TILE_SCORES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILE_SCORES_INL
#undef MULTIHEAD_KERNELS_TILE_SCORES_INL
#else
#define MULTIHEAD_KERNELS_TILE_SCORES_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/tile/score_order-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A key relative to the first one of its tile, as a number.
template <class T>
HWY_INLINE T RelativeKey(const KeyRange& keys, index_t j) {
  return static_cast<T>(std::clamp<index_t>(j - keys.origin, 0, kKeysPerForwardTile));
}

/// Everything that acts on scores of a tile, in vectors over lanes.
template <class T>
struct ScoreModifier {
  const HeadProblem<T>& problem;
  const T* bias_tile;              // nullptr when there is neither bias nor boolean mask
  alignas(64) T begin[kMaxLanes];  // interval relative to the tile's first key
  alignas(64) T end[kMaxLanes];
  alignas(64) T slope[kMaxLanes];
  alignas(64) T position[kMaxLanes];  // of the query on the diagonal, relative to the tile's first key

  HWY_INLINE ScoreModifier(const HeadProblem<T>& s, const Lanes<T>& lanes, const KeyRange& keys, const T* bias)
      : problem(s), bias_tile(bias) {
    FillLanes(lanes, begin, T{0}, [&](index_t n) { return RelativeKey<T>(keys, lanes.begin[n]); });
    FillLanes(lanes, end, T{0}, [&](index_t n) { return RelativeKey<T>(keys, lanes.end[n]); });
    if (s.alibi_slopes == nullptr) return;
    FillLanes(lanes, slope, T{0}, [&](index_t n) { return s.alibi_slopes[lanes.head[n] * s.alibi_stride]; });
    FillLanes(lanes, position, T{0},
              [&](index_t n) { return static_cast<T>(lanes.query[n] + s.diagonal - keys.origin); });
  }

  /// What acts on the scores of key j and the vector of lanes from n on (score_order-inl.hpp).
  struct Source {
    const ScoreModifier& modifier;
    index_t j, n;
    HWY_INLINE bool HasSoftcap() const { return modifier.problem.softcap != T{0}; }
    HWY_INLINE bool HasBias() const { return modifier.bias_tile != nullptr; }
    HWY_INLINE bool HasAlibi() const { return modifier.problem.alibi_slopes != nullptr; }
    template <class D>
    HWY_INLINE hn::Vec<D> Cap(D d, hn::Vec<D> s) const {
      return Softcap(d, s, modifier.problem.softcap);
    }
    template <class D>
    HWY_INLINE hn::Vec<D> Bias(D d) const {
      return hn::LoadU(d, modifier.bias_tile + j * kTileLanes<T> + n);
    }
    template <class D>
    HWY_INLINE hn::Vec<D> Slope(D d) const {
      return hn::LoadU(d, modifier.slope + n);
    }
    template <class D>
    HWY_INLINE hn::Vec<D> Position(D d) const {
      return hn::LoadU(d, modifier.position + n);
    }
    template <class D>
    HWY_INLINE hn::Vec<D> Key(D d) const {
      return hn::Set(d, static_cast<T>(j));
    }
    template <class D>
    HWY_INLINE hn::Mask<D> Inside(D d) const {
      return hn::And(hn::Ge(Key(d), hn::LoadU(d, modifier.begin + n)), hn::Lt(Key(d), hn::LoadU(d, modifier.end + n)));
    }
  };
  HWY_INLINE Source At(index_t j, index_t n) const { return {*this, j, n}; }
  /// Of one lane.
  HWY_INLINE bool Sees(index_t j, index_t n) const {
    const hn::CappedTag<T, 1> d;
    return hn::AllTrue(d, Visible(d, At(j, n)));
  }

  /// Applies all of it to tile[key][lane]; raises tile_max and seen.
  HWY_NOINLINE void Apply(const KeyRange& keys, int num_vectors, const Cuts& cuts, T* HWY_RESTRICT tile,
                          T* HWY_RESTRICT tile_max, T* HWY_RESTRICT seen) const {
    const Tag<T> d;
    const auto one = hn::Set(d, T{1});
    for (int v = 0; v < num_vectors; ++v) {
      const index_t n = v * kVectorLanes<T>;
      auto max = hn::LoadU(d, tile_max + n), met = hn::LoadU(d, seen + n);
      for (index_t j = keys.begin; j < std::min(keys.end, cuts.at[v + 1]); ++j) {
        T* HWY_RESTRICT at = tile + j * kTileLanes<T> + n;
        const Source source = At(j, n);
        const auto visible = Visible(d, source);
        const auto s = ModifiedScore(d, hn::LoadU(d, at), source, visible);
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
HWY_INLINE KeyRange PlainKeys(const HeadProblem<T>& problem, const Lanes<T>& lanes, const KeyRange& keys) {
  if (problem.softcap != T{0} || problem.alibi_slopes != nullptr) return {keys.origin, keys.begin, keys.begin};
  const index_t begin = std::clamp(lanes.last_begin - keys.origin, keys.begin, keys.end);
  return {keys.origin, begin, std::clamp(lanes.first_end - keys.origin, begin, keys.end)};
}

template <class T>
HWY_INLINE bool IsPlain(const HeadProblem<T>& problem, const Lanes<T>& lanes, const KeyRange& keys) {
  const KeyRange plain = PlainKeys(problem, lanes, keys);
  return plain.begin == keys.begin && plain.end == keys.end;
}

/// What acts on scores that need nothing but their bias (score_order-inl.hpp).
template <class T>
struct BiasSource {
  const T* at;
  static HWY_INLINE constexpr bool HasBias() { return true; }
  template <class D>
  HWY_INLINE hn::Vec<D> Bias(D d) const {
    return hn::LoadU(d, at);
  }
};

/// End of the product with keys that need nothing but their bias: what ScoreModifier::Apply would do, while the scores
/// are in registers. Raises max and seen.
template <class T>
struct ApplyBias {
  const T* bias;   // of the product's first row
  const T* first;  // where that row goes; rows are those of a tile
  T *max, *seen;
  template <int MR, int NV, class D>
  HWY_INLINE void Block(D d, hn::Vec<D> (&sum)[MR][NV], const T* c, index_t) const {
    const T* const at = bias + (c - first);
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      const index_t n = v * kVectorLanes<T>;
      auto largest = hn::LoadU(d, max + n), met = hn::LoadU(d, seen + n);
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) {
        const BiasSource<T> source{at + r * kTileLanes<T> + n};
        const auto visible = Visible(d, source);
        sum[r][v] = ModifiedScore(d, sum[r][v], source, visible);
        met = hn::IfThenElse(visible, hn::Set(d, T{1}), met);
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
