// Activations and layer norm in f32, compiled once for every target; a table is picked at run time.

#include "kernels/elementwise.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/instruction_set.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/exp-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using F32V = hn::Vec<F32>;

// y[i] = f(x[i]). The rest that fills no vector goes through one of zeros.
template <class F>
void Map(const float* x, float* y, index_t n, const F& f) {
  const F32 d;
  const auto lanes = static_cast<index_t>(hn::Lanes(d));
  index_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i)), d, y + i);
  if (i == n) return;
  HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)] = {};
  std::copy(x + i, x + n, rest);
  hn::Store(f(d, hn::Load(d, rest)), d, rest);
  std::copy_n(rest, n - i, y + i);
}

void Relu(const float* x, float* y, index_t n) {
  Map(x, y, n, [](F32 d, F32V v) HWY_ATTR { return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v); });
}

// Phi(x) = erfc(-x / sqrt 2) / 2, and for z >= 0, t = 1 / (1 + 0.3275911 z):
//   erfc(z) = (a1 t + a2 t^2 + a3 t^3 + a4 t^4 + a5 t^5) e^(-z^2)      absolute error below 1.5e-7
// Source: Abramowitz & Stegun 1964, 7.1.26. x * Phi(x) is then within 3e-7 of the exact value, or within that part of
// it where it is larger than 1 (tests/unit/basic_layers.cpp).
void Gelu(const float* x, float* y, index_t n) {
  Map(x, y, n, [](F32 d, F32V v) HWY_ATTR {
    // Phi(-14) is 0 in f32.
    const F32V one = hn::Set(d, 1.0f), most = hn::Set(d, 14.0f), size = hn::Abs(v);
    const F32V z = hn::Mul(hn::IfThenElse(hn::Gt(size, most), most, size), hn::Set(d, 0.70710678118654752f));
    const F32V t = hn::Div(one, hn::MulAdd(z, hn::Set(d, 0.3275911f), one));
    F32V p = hn::Set(d, 0.5f * 1.061405429f);
    p = hn::MulAdd(p, t, hn::Set(d, 0.5f * -1.453152027f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.5f * 1.421413741f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.5f * -0.284496736f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.5f * 0.254829592f));
    const F32V gauss = Exp2(d, hn::Mul(hn::Mul(z, z), hn::Set(d, static_cast<float>(-kLog2E))));
    const F32V tail = hn::Mul(hn::Mul(p, t), gauss);  // Phi(-|x|)
    const F32V phi = hn::IfThenElse(hn::Lt(v, hn::Zero(d)), tail, hn::Sub(one, tail));
    return hn::Mul(AtLeast(d, v, hn::Neg(most)), phi);
  });
}

// (1 + tanh u) / 2 = 1 / (1 + e^(-2u))
void GeluTanh(const float* x, float* y, index_t n) {
  Map(x, y, n, [](F32 d, F32V v) HWY_ATTR {
    constexpr double kScale = 0.79788456080286535588;  // sqrt(2 / pi)
    const F32V one = hn::Set(d, 1.0f), most = hn::Set(d, 126.0f), far = hn::Set(d, 12.0f);
    const F32V left = AtLeast(d, v, hn::Neg(far));
    const F32V near = hn::IfThenElse(hn::Gt(left, far), far, left);  // a NaN passes, here and below
    const F32V cubic = hn::MulAdd(hn::Mul(near, near), hn::Set(d, 0.044715f), one);
    F32V power = hn::Mul(hn::Mul(near, cubic), hn::Set(d, static_cast<float>(-2 * kScale * kLog2E)));
    const auto vanishes = hn::Gt(power, most);
    power = hn::IfThenElse(vanishes, most, power);
    return hn::IfThenZeroElse(vanishes, hn::Div(left, hn::Add(one, Exp2(d, power))));
  });
}

// Sum over [0, n) of term(vector of x in double), in one fixed order on a target.
template <class Term>
double SumOf(const float* x, index_t n, const Term& term) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const auto lanes = static_cast<index_t>(hn::Lanes(d));
  auto even = hn::Zero(d), odd = hn::Zero(d);
  index_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    even = hn::Add(even, term(d, hn::PromoteTo(d, hn::LoadU(half, x + i))));
    odd = hn::Add(odd, term(d, hn::PromoteTo(d, hn::LoadU(half, x + i + lanes))));
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  const hn::CappedTag<double, 1> scalar;
  for (; i < n; ++i) sum += hn::GetLane(term(scalar, hn::Set(scalar, static_cast<double>(x[i]))));
  return sum;
}

void LayerNorm(const float* x, const float* weight, const float* bias, double epsilon, float* y, index_t n) {
  const auto count = static_cast<double>(n);
  const double mean = SumOf(x, n, [](auto, auto v) HWY_ATTR { return v; }) / count;
  const double variance = SumOf(x, n,
                                [mean](auto d, auto v) HWY_ATTR {
                                  const auto centred = hn::Sub(v, hn::Set(d, mean));
                                  return hn::Mul(centred, centred);
                                }) /
                          count;
  const double scale = 1.0 / std::sqrt(variance + epsilon);
  // x - mean in two parts: exact however far the mean is from 0, as mean = near + rest to double precision.
  const auto near = static_cast<float>(mean), rest = static_cast<float>(mean - near);
  const auto scale32 = static_cast<float>(scale);
  const F32 d;
  const auto lanes = static_cast<index_t>(hn::Lanes(d));
  index_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const F32V centred = hn::Sub(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, near)), hn::Set(d, rest));
    const F32V xhat = hn::Mul(centred, hn::Set(d, scale32));
    hn::StoreU(hn::MulAdd(xhat, hn::LoadU(d, weight + i), hn::LoadU(d, bias + i)), d, y + i);
  }
  for (; i < n; ++i) y[i] = std::fma(((x[i] - near) - rest) * scale32, weight[i], bias[i]);
}

const ElementwiseTable* Elementwise() {
  static constexpr ElementwiseTable kTable{
      .relu = &Relu, .gelu = &Gelu, .gelu_tanh = &GeluTanh, .layer_norm = &LayerNorm};
  return &kTable;
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace multihead::kernels {

HWY_EXPORT(Elementwise);

const ElementwiseTable& elementwise() { return *chosen(HWY_DISPATCH_TABLE(Elementwise))(); }

}  // namespace multihead::kernels
#endif
