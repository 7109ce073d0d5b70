// Rows of training in f32, compiled once for every target; a table is picked at run time.

#include "kernels/training.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/instruction_set.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/training.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/exp-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

using F32 = Tag<float>;
using F32V = hn::Vec<F32>;

inline constexpr index_t kLanes = kVectorLanes<float>;

// Calls whole(i) for each whole vector of [0, n), then rest(i, count) where elements are left.
template <class Whole, class Rest>
HWY_INLINE void ForVectors(index_t n, const Whole& whole, const Rest& rest) {
  index_t i = 0;
  for (; i + kLanes <= n; i += kLanes) whole(i);
  if (i < n) rest(i, n - i);
}

// y[i] = f(i, load) with load(p) = the vector at p + i; the rest that fills no vector goes through vectors of zeros.
template <class F>
HWY_INLINE void MapVectors(float* y, index_t n, const F& f) {
  const F32 d;
  ForVectors(
      n,
      [&](index_t i)
          HWY_ATTR { hn::StoreU(f([&](const float* p) HWY_ATTR { return hn::LoadU(d, p + i); }), d, y + i); },
      [&](index_t i, index_t count) HWY_ATTR {
        const auto load = [&](const float* p) HWY_ATTR {
          HWY_ALIGN float part[kLanes] = {};
          std::copy_n(p + i, count, part);
          return hn::Load(d, part);
        };
        HWY_ALIGN float result[kLanes];
        hn::Store(f(load), d, result);
        std::copy_n(result, count, y + i);
      });
}

// Sum over [0, n) of term(vector): in f32 over short runs, these in double.
template <class Term>
HWY_INLINE double LongSum(const float* x, index_t n, float neutral, const Term& term) {
  constexpr index_t kRun = 32 * kLanes;
  const F32 d;
  double total = 0;
  for (index_t begin = 0; begin < n; begin += kRun) {
    const index_t end = std::min(n, begin + kRun);
    F32V even = hn::Zero(d), odd = hn::Zero(d);
    index_t i = begin;
    for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
      even = hn::Add(even, term(hn::LoadU(d, x + i)));
      odd = hn::Add(odd, term(hn::LoadU(d, x + i + kLanes)));
    }
    for (; i < end; i += kLanes) {
      HWY_ALIGN float part[kLanes];
      std::fill_n(part, kLanes, neutral);
      std::copy(x + i, x + std::min(end, i + kLanes), part);
      even = hn::Add(even, term(hn::Load(d, part)));
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd))));
  }
  return total;
}

RowStatistics StatisticsOfRow(const float* x, index_t n) {
  const F32 d;
  F32V most = hn::Set(d, x[0]);
  float max = x[0];
  ForVectors(
      n, [&](index_t i) HWY_ATTR { most = hn::Max(most, hn::LoadU(d, x + i)); },
      [&](index_t i, index_t count) HWY_ATTR { max = *std::max_element(x + i, x + i + count); });
  max = std::max(max, hn::GetLane(hn::MaxOfLanes(d, most)));
  const F32V shift = hn::Set(d, max);
  const double sum_exp = LongSum(x, n, -kInfinity<float>, [&](F32V v) HWY_ATTR { return ExpMinus(d, v, shift); });
  return {max, sum_exp, LongSum(x, n, 0.0f, [](F32V v) HWY_ATTR { return v; })};
}

void SoftmaxGradient(float* x, index_t n, float max, float scale, float shift) {
  const F32 d;
  const F32V most = hn::Set(d, max), by = hn::Set(d, scale), less = hn::Set(d, shift);
  MapVectors(x, n, [&](const auto& load) HWY_ATTR { return hn::MulSub(ExpMinus(d, load(x), most), by, less); });
}

// Sum over [0, n) of term(i, load) in double, in one fixed order on a target.
template <class Term>
HWY_INLINE double DoubleSum(index_t n, const Term& term) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  constexpr index_t kHalf = kVectorLanes<double>;
  auto even = hn::Zero(d), odd = hn::Zero(d);
  const auto at = [&](index_t i) HWY_ATTR {
    return term([&, i](const float* p) HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(half, p + i)); });
  };
  index_t i = 0;
  for (; i + 2 * kHalf <= n; i += 2 * kHalf) even = hn::Add(even, at(i)), odd = hn::Add(odd, at(i + kHalf));
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; i < n; ++i) {
    sum += hn::GetLane(term([&](const float* p) HWY_ATTR { return hn::Set(d, static_cast<double>(p[i])); }));
  }
  return sum;
}

void LayerNormBackward(const float* x, const float* weight, const float* dy, double epsilon, float* dx, float* dweight,
                       float* dbias, index_t n) {
  const hn::ScalableTag<double> dd;
  const auto count = static_cast<double>(n);
  const double mean = DoubleSum(n, [&](const auto& load) HWY_ATTR { return load(x); }) / count;
  const auto vmean = hn::Set(dd, mean);
  const double variance = DoubleSum(n,
                                    [&](const auto& load) HWY_ATTR {
                                      const auto centred = hn::Sub(load(x), vmean);
                                      return hn::Mul(centred, centred);
                                    }) /
                          count;
  const double scale = 1.0 / std::sqrt(variance + epsilon);
  // x - mean in two parts: exact however far the mean is from 0.
  const F32 d;
  const auto near = static_cast<float>(mean);
  const F32V vnear = hn::Set(d, near), vrest = hn::Set(d, static_cast<float>(mean - near));
  const F32V vscale = hn::Set(d, static_cast<float>(scale));
  const auto xhat = [&](const auto& load) HWY_ATTR { return hn::Mul(hn::Sub(hn::Sub(load(x), vnear), vrest), vscale); };
  if (dweight != nullptr) {
    MapVectors(dweight, n, [&](const auto& load) HWY_ATTR { return hn::MulAdd(load(dy), xhat(load), load(dweight)); });
    MapVectors(dbias, n, [&](const auto& load) HWY_ATTR { return hn::Add(load(dbias), load(dy)); });
  }
  if (dx == nullptr) return;
  const double mean_g =
      DoubleSum(n, [&](const auto& load) HWY_ATTR { return hn::Mul(load(dy), load(weight)); }) / count;
  const double mean_gx =
      DoubleSum(n, [&](const auto& load)
                       HWY_ATTR { return hn::Mul(hn::Mul(load(dy), load(weight)), hn::Sub(load(x), vmean)); }) *
      scale / count;
  const F32V vg = hn::Set(d, static_cast<float>(mean_g)), vgx = hn::Set(d, static_cast<float>(mean_gx));
  MapVectors(dx, n, [&](const auto& load) HWY_ATTR {
    const F32V g = hn::MulSub(load(dy), load(weight), vg);
    return hn::Mul(hn::NegMulAdd(xhat(load), vgx, g), vscale);
  });
}

void ReluBackward(const float* x, const float* dy, float* dx, index_t n) {
  const F32 d;
  MapVectors(dx, n,
             [&](const auto& load) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(load(x), hn::Zero(d)), load(dy)); });
}

// 1 / (1 + e^-x). The exponential stays finite: from -87 on the result is 0 in f32.
HWY_INLINE F32V Sigmoid(F32V x) {
  const F32 d;
  const F32V one = hn::Set(d, 1.0f), most = hn::Set(d, 87.0f);
  const F32V minus = hn::Neg(x), y = hn::IfThenElse(hn::Gt(minus, most), most, minus);
  const F32V result = hn::Div(one, hn::Add(one, ExpMinus(d, y, hn::Zero(d))));
  return hn::IfThenZeroElse(hn::Gt(minus, most), result);
}

void Silu(const float* x, float* y, index_t n) {
  const F32 d;
  MapVectors(y, n, [&](const auto& load) HWY_ATTR {
    const F32V v = load(x), least = hn::Set(d, -88.0f);  // -infinity times 0 would be NaN
    return hn::Mul(hn::IfThenElse(hn::Lt(v, least), least, v), Sigmoid(v));
  });
}

void SiluBackward(const float* x, const float* dy, float* dx, index_t n) {
  const F32 d;
  MapVectors(dx, n, [&](const auto& load) HWY_ATTR {
    const F32V v = load(x), far = hn::Set(d, 88.0f), s = Sigmoid(v);
    const F32V low = hn::IfThenElse(hn::Lt(v, hn::Neg(far)), hn::Neg(far), v);
    const F32V near = hn::IfThenElse(hn::Gt(low, far), far, low);
    const F32V slope = hn::Mul(s, hn::MulAdd(near, hn::Sub(hn::Set(d, 1.0f), s), hn::Set(d, 1.0f)));
    return hn::Mul(load(dy), slope);
  });
}

void AddToDouble(const float* x, double* sums, index_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  constexpr index_t kHalf = kVectorLanes<double>;
  index_t i = 0;
  for (; i + kHalf <= n; i += kHalf) {
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::PromoteTo(d, hn::LoadU(half, x + i))), d, sums + i);
  }
  for (; i < n; ++i) sums[i] += static_cast<double>(x[i]);
}

double SumOfSquares(const float* x, index_t n) {
  return DoubleSum(n, [&](const auto& load) HWY_ATTR {
    const auto v = load(x);
    return hn::Mul(v, v);
  });
}

void Adam(const AdamStep& s, const float* gradient, float* p, float* mean, float* square, index_t n) {
  const F32 d;
  const F32V beta1 = hn::Set(d, s.beta1), beta2 = hn::Set(d, s.beta2), by = hn::Set(d, s.gradient_scale);
  const F32V new1 = hn::Set(d, s.one_minus_beta1), new2 = hn::Set(d, s.one_minus_beta2);
  const F32V decay = hn::Set(d, s.decay), step = hn::Set(d, s.step);
  const F32V root = hn::Set(d, s.inverse_root_bias), epsilon = hn::Set(d, s.epsilon);
  const auto update = [&](F32V g, F32V& m, F32V& v, F32V value) HWY_ATTR {
    g = hn::Mul(g, by);
    m = hn::MulAdd(beta1, m, hn::Mul(new1, g));
    v = hn::MulAdd(beta2, v, hn::Mul(new2, hn::Mul(g, g)));
    const F32V divisor = hn::MulAdd(hn::Sqrt(v), root, epsilon);
    return hn::Sub(hn::Mul(value, decay), hn::Div(hn::Mul(step, m), divisor));
  };
  ForVectors(
      n,
      [&](index_t i) HWY_ATTR {
        F32V m = hn::LoadU(d, mean + i), v = hn::LoadU(d, square + i);
        hn::StoreU(update(hn::LoadU(d, gradient + i), m, v, hn::LoadU(d, p + i)), d, p + i);
        hn::StoreU(m, d, mean + i), hn::StoreU(v, d, square + i);
      },
      [&](index_t i, index_t count) HWY_ATTR {
        HWY_ALIGN float part[4][kLanes] = {};
        const float* const from[4] = {gradient + i, p + i, mean + i, square + i};
        for (int k = 0; k < 4; ++k) std::copy_n(from[k], count, part[k]);
        F32V m = hn::Load(d, part[2]), v = hn::Load(d, part[3]);
        hn::Store(update(hn::Load(d, part[0]), m, v, hn::Load(d, part[1])), d, part[1]);
        hn::Store(m, d, part[2]), hn::Store(v, d, part[3]);
        std::copy_n(part[1], count, p + i);
        std::copy_n(part[2], count, mean + i), std::copy_n(part[3], count, square + i);
      });
}

const TrainingTable* Training() {
  static constexpr TrainingTable kTable{.row_statistics = &StatisticsOfRow,
                                        .softmax_gradient = &SoftmaxGradient,
                                        .layer_norm_backward = &LayerNormBackward,
                                        .relu_backward = &ReluBackward,
                                        .silu = &Silu,
                                        .silu_backward = &SiluBackward,
                                        .add_to_double = &AddToDouble,
                                        .sum_of_squares = &SumOfSquares,
                                        .adam = &Adam};
  return &kTable;
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace multihead::kernels {

HWY_EXPORT(Training);

const TrainingTable& training() { return *chosen(HWY_DISPATCH_TABLE(Training))(); }

}  // namespace multihead::kernels
#endif
