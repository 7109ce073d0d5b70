// exp2 and exp on vectors.
//
//   x = n + f, n = round(x), f in [-1/2, 1/2]        2^x = 2^n * p(f)        e^x = 2^(x log2 e)
//
// f32: minimax polynomial of degree 6, 2^x within a relative error of 1.3e-7 as evaluated; f64: Taylor to degree 13,
// 4e-16. e^x (f32) is within 2.3e-7 + 2e-8 |x|: with FMA x log2 e - n is rounded once, so what grows with |x| is the
// error of log2 e as a float; without FMA it is 1.2e-7 |x|. tests/core/exp.cpp holds them all, on every target.
// Range: x <= 127 (f32), 1023 (f64). Below -126 (-1022) 2^x is exactly 0, for -infinity too; NaN gives NaN.
// Arguments below the range, -infinity among them, take no part in the arithmetic: no flag of the CPU is raised for
// them.

#if defined(MULTIHEAD_KERNELS_SIMD_EXP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_SIMD_EXP_INL
#undef MULTIHEAD_KERNELS_SIMD_EXP_INL
#else
#define MULTIHEAD_KERNELS_SIMD_EXP_INL
#endif

#include <cstdint>

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

/// The larger of x and `least`; a NaN in x stays.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V AtLeast([[maybe_unused]] D d, V x, V least) {
#if HWY_TARGET <= HWY_SSSE3
  return hn::Max(least, x);  // x86: the second operand if one is NaN
#else
  return hn::IfThenElse(hn::Lt(x, least), least, x);
#endif
}

/// p(fraction) * 2^n from biased = n + kRound; 0 where `below`.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2Parts(D d, V biased, V fraction, hn::Mask<D> below) {
  using C = Exp2Constants<hn::TFromD<D>>;
  const hn::RebindToUnsigned<D> du;
  const V power = hn::BitCast(d, hn::ShiftLeft<C::kMantissaBits>(hn::BitCast(du, biased)));
  V p = hn::Set(d, C::kPoly[0]);
  constexpr int kTerms = sizeof(C::kPoly) / sizeof(C::kPoly[0]);
#pragma GCC unroll 16
  for (int i = 1; i < kTerms; ++i) p = hn::MulAdd(p, fraction, hn::Set(d, C::kPoly[i]));
  // A product, not an integer addition to the exponent: NaN stays NaN whatever its payload.
  return hn::IfThenZeroElse(below, hn::Mul(p, power));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2(D d, V x) {
  using C = Exp2Constants<hn::TFromD<D>>;
  const V rounder = hn::Set(d, C::kRound), smallest = hn::Set(d, C::kSmallest);
  const auto below = hn::Lt(x, smallest);
  x = AtLeast(d, x, smallest);
  const V biased = hn::Add(x, rounder);
  return Exp2Parts(d, biased, hn::Sub(x, hn::Sub(biased, rounder)), below);
}

#if HWY_TARGET <= HWY_AVX2
// f32 with eight lanes or more: e^y = 2^(i/8) 2^n p(f), 8 y log2 e = 8 n + i + 8 f, |8 f| <= 1/2. The power of the
// eighth comes from a table in a register, which leaves a polynomial of degree 3 (own minimax fit, p(0) = 1; 2.7e-8).
// 5.8 cycles per vector instead of 6.9 on a Zen 3.

/// The mantissas of 2^(i/8), less i/8: what adding (8n + i) << 20 to them does not bring. Twice, for sixteen lanes.
alignas(64) inline constexpr std::int32_t kEighths[16] = {0,       -289342, -509968, -655657, -719629, -694486,
                                                          -572163, -343865, 0,       -289342, -509968, -655657,
                                                          -719629, -694486, -572163, -343865};

template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpF32(D d, V y, hn::Mask<D> below) {
  const hn::RebindToSigned<D> di;
  constexpr float kEighth = 1.0f / 8;
  const V scale = hn::Set(d, static_cast<float>(8 * kLog2E)), rounder = hn::Set(d, 12582912.0f + 8 * 127);
  const V biased = hn::MulAdd(y, scale, rounder);
  const V f = hn::MulSub(y, scale, hn::Sub(biased, rounder));
  const auto bits = hn::BitCast(di, biased);
  const auto index = hn::IndicesFromVec(di, hn::And(bits, hn::Set(di, 7)));
  const auto mantissa = hn::TableLookupLanes(hn::Load(di, kEighths), index);
  const V power = hn::BitCast(d, hn::Add(hn::ShiftLeft<20>(bits), mantissa));
  V p = hn::MulAdd(hn::Set(d, 0.055496227f * kEighth * kEighth * kEighth), f,
                   hn::Set(d, 0.240257636f * kEighth * kEighth));
  p = hn::MulAdd(p, f, hn::Set(d, 0.693147242f * kEighth));
  return hn::IfThenZeroElse(below, hn::MulAdd(p, hn::Mul(f, power), power));
}
#endif

#if HWY_TARGET <= HWY_AVX3
// Sixteen lanes look up 32 powers in two registers, which leaves a polynomial of degree 2 (own minimax fit, p(0) = 1;
// 5.4e-8): 12 operations per vector on the two pipes that FMA needs, instead of 15.
alignas(64) inline constexpr std::int32_t kThirtySeconds[32] = {
    0,       -78457,  -152893, -223217, -289342, -351174, -408621, -461584, -509968, -553670, -592590,
    -626621, -655657, -679589, -698305, -711690, -719629, -722001, -718684, -709555, -694486, -673346,
    -646004, -612322, -572163, -525384, -471841, -411385, -343865, -269126, -187011, -97357};

/// e^(x - shift), 0 where x < least. The lanes left out are 0 from the first instruction on.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpF32Wide(D d, V x, V shift, V least) {
  const __mmask16 keep = _mm512_cmp_ps_mask(x.raw, least.raw, _CMP_NLT_UQ);  // NaN stays
  const V y{_mm512_maskz_sub_ps(keep, x.raw, shift.raw)};
  const V scale = hn::Set(d, static_cast<float>(32 * kLog2E)), rounder = hn::Set(d, 12582912.0f + 32 * 127);
  const V biased = hn::MulAdd(y, scale, rounder);
  const V f = hn::MulSub(y, scale, hn::Sub(biased, rounder));
  const __m512i bits = _mm512_castps_si512(biased.raw);
  const __m512i mantissa =
      _mm512_permutex2var_epi32(_mm512_load_si512(kThirtySeconds), bits, _mm512_load_si512(kThirtySeconds + 16));
  const V power{_mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(bits, 18), mantissa))};
  const V p = hn::MulAdd(hn::Set(d, 0.000234597918f), f, hn::Set(d, 0.021661167f));
  return V{_mm512_maskz_fmadd_ps(keep, p.raw, hn::Mul(f, power).raw, power.raw)};
}
#endif

/// e^(x - shift), shift > -infinity. Subtracting first is exact for scores near the maximum, however large both are.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpMinus(D d, V x, V shift) {
  using T = hn::TFromD<D>;
  using C = Exp2Constants<T>;
  const V least = hn::Add(shift, hn::Set(d, static_cast<T>(C::kSmallest / kLog2E)));
#if HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(T) == 4 && hn::MaxLanes(d) == 16) return ExpF32Wide(d, x, shift, least);
#endif
  const auto below = hn::Lt(x, least);
  const V y = hn::Sub(AtLeast(d, x, least), shift);
#if HWY_TARGET <= HWY_AVX2
  if constexpr (sizeof(T) == 4 && hn::MaxLanes(d) >= 8) return ExpF32(d, y, below);
#endif
  const V log2e = hn::Set(d, static_cast<T>(kLog2E)), rounder = hn::Set(d, C::kRound);
  const V biased = hn::MulAdd(y, log2e, rounder);
  return Exp2Parts(d, biased, hn::MulSub(y, log2e, hn::Sub(biased, rounder)), below);
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
