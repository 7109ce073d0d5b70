// What acts on a score, in its one order, for every form in which scores lie:
//
//   s = softcap(s)     s += bias     s -= slope * |position - key|     hidden: s = -infinity
//
// A form (scores-inl.hpp: lanes are queries; row_scores-inl.hpp: lanes are keys) gives the numbers of a vector of
// scores as a source, an object with these members, inlined away:
//
//   HasSoftcap(), HasBias(), HasAlibi()       the same for all scores of a call; a source that never has one leaves out
//   its
//                                             members
//   Cap(d, s)                                 s under the softcap
//   Bias(d), Slope(d), Position(d), Key(d)    vectors; a bias of -infinity hides
//   Inside(d)                                 mask: the key is in the interval of causal, window and lengths; left out
//                                             where all keys are
//
// A new option of scores is added here, once, and to the sources.

#if defined(MULTIHEAD_KERNELS_TILE_SCORE_ORDER_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILE_SCORE_ORDER_INL
#undef MULTIHEAD_KERNELS_TILE_SCORE_ORDER_INL
#else
#define MULTIHEAD_KERNELS_TILE_SCORE_ORDER_INL
#endif

#include <algorithm>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/tile/bias-inl.hpp"

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

/// Softcap, bias and ALiBi.
template <class D, class Source, class V = hn::Vec<D>>
HWY_INLINE V AddTerms(D d, V s, const Source& source) {
  if constexpr (requires { source.Cap(d, s); }) {
    if (source.HasSoftcap()) s = source.Cap(d, s);
  }
  if (source.HasBias()) s = hn::Add(s, source.Bias(d));
  if constexpr (requires { source.Slope(d); }) {
    if (source.HasAlibi()) {
      s = hn::NegMulAdd(source.Slope(d), hn::Abs(hn::Sub(source.Position(d), source.Key(d))), s);
    }
  }
  return s;
}

/// Which keys are visible.
template <class D, class Source>
HWY_INLINE hn::Mask<D> Visible(D d, const Source& source) {
  if constexpr (requires { source.Inside(d); }) {
    const auto inside = source.Inside(d);
    return source.HasBias() ? hn::AndNot(IsHidden(d, source.Bias(d)), inside) : inside;
  } else {
    return hn::Not(IsHidden(d, source.Bias(d)));
  }
}

/// All of it: the score after its terms and the mask.
template <class D, class Source, class V = hn::Vec<D>>
HWY_INLINE V ModifiedScore(D d, V s, const Source& source, hn::Mask<D> visible) {
  return hn::IfThenElse(visible, AddTerms(d, s, source), hn::Set(d, -kInfinity<hn::TFromD<D>>));
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
