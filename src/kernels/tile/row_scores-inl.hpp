// Scores of one row whose lanes are keys, row[key], between the product with the keys and the exponential.

#if defined(MULTIHEAD_KERNELS_TILE_ROW_SCORES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILE_ROW_SCORES_INL
#undef MULTIHEAD_KERNELS_TILE_ROW_SCORES_INL
#else
#define MULTIHEAD_KERNELS_TILE_ROW_SCORES_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/tile/bias_tile-inl.hpp"
#include "kernels/tile/score_order-inl.hpp"
#include "kernels/tile/scores-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Everything that acts on scores of one row, in vectors along the keys. `room` is for its bias, if it has one.
template <class T>
struct RowOfScores {
  const HeadProblem<T>& problem;
  const KeyRange& keys;
  const T* bias;
  T begin, end, slope = 0, position = 0;

  HWY_INLINE RowOfScores(const HeadProblem<T>& s, const Lanes<T>& lanes, index_t n, const KeyRange& range, T* room)
      : problem(s),
        keys(range),
        bias(room),
        begin(RelativeKey<T>(range, std::max(lanes.begin[n], range.origin + range.begin))),
        end(RelativeKey<T>(range, std::min(lanes.end[n], range.origin + range.end))) {
    if (room != nullptr) BiasRow(s, lanes, n, range, room);
    if (s.alibi_slopes == nullptr) return;
    slope = s.alibi_slopes[lanes.head[n] * s.alibi_stride];
    position = static_cast<T>(lanes.query[n] + s.diagonal - range.origin);
  }

  /// What acts on the scores of the vector of keys from j on (score_order-inl.hpp).
  struct Source {
    const RowOfScores& row;
    index_t j;
    HWY_INLINE bool HasSoftcap() const { return row.problem.softcap != T{0}; }
    HWY_INLINE bool HasBias() const { return row.bias != nullptr; }
    HWY_INLINE bool HasAlibi() const { return row.problem.alibi_slopes != nullptr; }
    template <class D>
    HWY_INLINE hn::Vec<D> Cap(D d, hn::Vec<D> s) const {
      return Softcap(d, s, row.problem.softcap);
    }
    template <class D>
    HWY_INLINE hn::Vec<D> Bias(D d) const {
      return hn::LoadU(d, row.bias + j);
    }
    template <class D>
    HWY_INLINE hn::Vec<D> Slope(D d) const {
      return hn::Set(d, row.slope);
    }
    template <class D>
    HWY_INLINE hn::Vec<D> Position(D d) const {
      return hn::Set(d, row.position);
    }
    template <class D>
    HWY_INLINE hn::Vec<D> Key(D d) const {
      return hn::Iota(d, static_cast<T>(j));
    }
    template <class D>
    HWY_INLINE hn::Mask<D> Inside(D d) const {
      return hn::And(hn::Ge(Key(d), hn::Set(d, row.begin)), hn::Lt(Key(d), hn::Set(d, row.end)));
    }
  };

  HWY_INLINE bool Sees(index_t j) const {
    const hn::CappedTag<T, 1> d;
    return hn::AllTrue(d, Visible(d, Source{*this, j}));
  }

  /// The largest score, when nothing else is to be done.
  HWY_INLINE T Max(const T* HWY_RESTRICT row) const {
    const Tag<T> d;
    auto max = hn::Set(d, -kInfinity<T>);
    for (index_t j = keys.begin; j < keys.end; j += kVectorLanes<T>) max = hn::Max(hn::LoadU(d, row + j), max);
    return hn::GetLane(hn::MaxOfLanes(d, max));
  }

  /// Applies all of it, whole vectors: -infinity where a key is hidden or no key at all. Gives the largest score, and
  /// whether a key was visible.
  HWY_NOINLINE T Apply(T* HWY_RESTRICT row, bool& seen) const {
    const Tag<T> d;
    const auto hidden = hn::Set(d, -kInfinity<T>);
    auto max = hidden, met = hn::Zero(d);
    for (index_t j = keys.begin / kVectorLanes<T> * kVectorLanes<T>; j < keys.end; j += kVectorLanes<T>) {
      const Source source{*this, j};
      const auto visible = Visible(d, source);
      const auto s = ModifiedScore(d, hn::LoadU(d, row + j), source, visible);
      met = hn::IfThenElse(visible, hn::Set(d, T{1}), met);
      max = hn::Max(s, max);
      hn::StoreU(s, d, row + j);
    }
    seen = hn::GetLane(hn::MaxOfLanes(d, met)) != T{0};
    return hn::GetLane(hn::MaxOfLanes(d, max));
  }
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
