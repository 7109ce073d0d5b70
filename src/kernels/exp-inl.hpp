// exp2 on vectors.
//
//   x = n + f, n = round(x), f in [-1/2, 1/2]        2^x = 2^n * p(f)
//
// f32: minimax polynomial of degree 6, relative error below 1.3e-7 as evaluated; f64: Taylor to degree 13, below
// 4e-16 (tests/core/exp.cpp holds both, on every target).
// Range: x <= 127 (f32), 1023 (f64). Below -126 (-1022) the result is exactly 0, for -infinity too; NaN gives NaN.

#if defined(MULTIHEAD_KERNELS_EXP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_EXP_INL
#undef MULTIHEAD_KERNELS_EXP_INL
#else
#define MULTIHEAD_KERNELS_EXP_INL
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr double kLog2E = 1.4426950408889634074;

template <class T>
struct Exp2Constants;

template <>
struct Exp2Constants<float> {
  // Adding this to x leaves round(x) + 127 in the low bits: the exponent field of 2^round(x).
  static constexpr float kRound = 12582912.0f + 127.0f;
  static constexpr int kMantissaBits = 23;
  static constexpr float kSmallest = -126.0f;
  // Highest power first.
  static constexpr float kPoly[] = {
      0.00015345812f, 0.00133999312f, 0.00961848896f, 0.0555032878f, 0.240226469f, 0.693147206f, 1.0f};
};

template <>
struct Exp2Constants<double> {
  static constexpr double kRound = 6755399441055744.0 + 1023.0;
  static constexpr int kMantissaBits = 52;
  static constexpr double kSmallest = -1022.0;
  // ln(2)^k / k!
  static constexpr double kPoly[] = {1.3691488853904129e-12, 2.5678435993488206e-11,
                                     4.4455382718708116e-10, 7.0549116208011233e-09,
                                     1.0178086009239700e-07, 1.3215486790144309e-06,
                                     1.5252733804059840e-05, 1.5403530393381610e-04,
                                     1.3333558146428443e-03, 9.6181291076284772e-03,
                                     5.5504108664821580e-02, 2.4022650695910072e-01,
                                     6.9314718055994531e-01, 1.0};
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2(D d, V x) {
  using T = hn::TFromD<D>;
  using C = Exp2Constants<T>;
  const hn::RebindToUnsigned<D> du;
  const V rounder = hn::Set(d, C::kRound);
  const V biased = hn::Add(x, rounder);
  const V fraction = hn::Sub(x, hn::Sub(biased, rounder));
  const V power = hn::BitCast(d, hn::ShiftLeft<C::kMantissaBits>(hn::BitCast(du, biased)));
  V p = hn::Set(d, C::kPoly[0]);
  constexpr int kTerms = sizeof(C::kPoly) / sizeof(T);
#pragma GCC unroll 16
  for (int i = 1; i < kTerms; ++i) p = hn::MulAdd(p, fraction, hn::Set(d, C::kPoly[i]));
  // A product, not an integer addition to the exponent: NaN stays NaN whatever its payload.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, C::kSmallest)), hn::Mul(p, power));
}

/// e^(x - shift). Subtracting first is exact for scores near the maximum, however large both are.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpMinus(D d, V x, V shift) {
  return Exp2(d, hn::Mul(hn::Sub(x, shift), hn::Set(d, static_cast<hn::TFromD<D>>(kLog2E))));
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
