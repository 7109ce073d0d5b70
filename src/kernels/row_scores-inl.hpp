// ScoreModifier's work on scores that lie along the keys: score[key] of one row.

#if defined(MULTIHEAD_KERNELS_ROW_SCORES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_ROW_SCORES_INL
#undef MULTIHEAD_KERNELS_ROW_SCORES_INL
#else
#define MULTIHEAD_KERNELS_ROW_SCORES_INL
#endif

#include "hwy/highway.h"
#include "kernels/scores-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Everything that acts on scores of one row, in vectors along the keys. `room` is for its bias, if it has one.
template <class T>
struct RowOfScores {
  const Scores<T>& scores;
  const KeyRange& keys;
  const T* bias;
  T begin, end, slope = 0, position = 0;

  HWY_INLINE RowOfScores(const Scores<T>& s, const Lanes<T>& lanes, index_t n, const KeyRange& range, T* room)
      : scores(s),
        keys(range),
        bias(room),
        begin(RelativeKey<T>(range, std::max(lanes.begin[n], range.origin + range.begin))),
        end(RelativeKey<T>(range, std::min(lanes.end[n], range.origin + range.end))) {
    if (room != nullptr) BiasRow(s, lanes, n, range, room);
    if (s.alibi_slopes == nullptr) return;
    slope = s.alibi_slopes[lanes.head[n] * s.alibi_stride];
    position = static_cast<T>(lanes.query[n] + s.diagonal - range.origin);
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
  HWY_NOINLINE T Modify(T* HWY_RESTRICT row, bool& seen) const {
    const Tag<T> d;
    const auto hidden = hn::Set(d, -kInfinity<T>);
    auto max = hidden, met = hn::Zero(d);
    for (index_t j = keys.begin / kVectorLanes<T> * kVectorLanes<T>; j < keys.end; j += kVectorLanes<T>) {
      const auto key = hn::Iota(d, static_cast<T>(j));
      auto s = hn::LoadU(d, row + j);
      auto visible = hn::And(hn::Ge(key, hn::Set(d, begin)), hn::Lt(key, hn::Set(d, end)));
      if (scores.softcap != T{0}) s = Softcap(d, s, scores.softcap);
      if (bias != nullptr) {
        const auto added = hn::LoadU(d, bias + j);
        visible = hn::AndNot(IsHidden(d, added), visible);
        s = hn::Add(s, added);
      }
      if (scores.alibi_slopes != nullptr) s = AddAlibi(s, hn::Set(d, slope), hn::Set(d, position), key);
      s = hn::IfThenElse(visible, s, hidden);
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
