// Layers on finite input raise no flag of the floating point unit that means a fault.
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>

#include "multihead/nn/layer_norm.hpp"
#include "nn/extra_key.hpp"
#include "tests/support/layer_problem.hpp"

namespace multihead::nn {
namespace {

constexpr int kFaults = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;

template <class T>
void expect_no_faults(const test::LayerCase& c) {
  const test::LayerProblem<T> p(c, test::run_seed());
  MultiHeadActivations<T> activations;
  MultiHeadParameters<T> parameters = p.layer.zero_gradients();
  Tensor<T, 3> y(p.dy.shape()), dx_q(p.x_q.shape());
  std::feclearexcept(kFaults);
  p.layer.forward(p.input(), {.y = y.view()}, p.options(), &activations);
  EXPECT_EQ(std::fetestexcept(kFaults), 0) << "forward of " << c.name;
  std::feclearexcept(kFaults);
  p.layer.backward(p.input(), activations, p.dy.view(), {.dx_q = dx_q.view(), .parameters = &parameters}, p.options());
  EXPECT_EQ(std::fetestexcept(kFaults), 0) << "backward of " << c.name;
}

TEST(MultiHeadFlags, OfEveryPartOfTheLayer) {
  for (const test::LayerCase& c : test::layer_cases()) {
    expect_no_faults<float>(c);
    expect_no_faults<double>(c);
  }
}

TEST(MultiHeadFlags, OfALayerNormOfEqualAndOfHugeNumbers) {
  for (const float size : {0.0f, 1e-44f, 1.0f, 1e38f}) {
    for (const index_t features : {1, 7, 40}) {
      LayerNorm<float> layer(features, 1e-12);
      Tensor<float, 2> x({3, features}), y({3, features});
      for (index_t n = 0; n < x.size(); ++n) x.data()[n] = n < features ? size : static_cast<float>(n % 3 - 1) * size;
      std::feclearexcept(kFaults);
      layer.forward(x.view(), y.view());
      EXPECT_EQ(std::fetestexcept(kFaults), 0) << size;
    }
  }
}

// Scores and caps near both ends of what T holds: s / cap and differences of scores are beyond it.
TEST(MultiHeadFlags, OfAnExtraKeyOfHugeScoresAndCaps) {
  const std::vector<index_t> kv_head_of{0};
  for (const float size : {1e-38f, 1.0f, 3e38f}) {
    for (const std::optional<double> softcap : {std::optional<double>(), {1.2e-38}, {1e-30}, {1e30}, {3.4e38}}) {
      for (const float row_max : {-3e38f, 0.0f, 3e38f}) {
        Tensor<float, 2> bias_k({1, 1}), bias_v({1, 2}), dbias_k({1, 1}), dbias_v({1, 2});
        Tensor<float, 4> q({1, 2, 1, 1}), out({1, 2, 1, 2}), dq({1, 2, 1, 1});
        Tensor<float, 3> max({1, 1, 2}), sum({1, 1, 2});
        bias_k(0, 0) = size;
        for (index_t i = 0; i < 2; ++i) {
          q(0, i, 0, 0) = i == 0 ? 1.0f : -1.0f;
          max(0, 0, i) = row_max;
          sum(0, 0, i) = 1;
          for (index_t d = 0; d < 2; ++d) bias_v(0, d) = 1, out(0, i, 0, d) = 2;
        }
        const ExtraKey<float> extra{bias_k, bias_v, kv_head_of, 1.0};
        const AttentionOptions options{.softcap = softcap};
        std::feclearexcept(kFaults);
        join_extra_key<float>(extra, q.view(), options, {out.view(), max.view(), sum.view()});
        EXPECT_EQ(std::fetestexcept(kFaults), 0) << size << " below " << softcap.value_or(0) << " beside " << row_max;
        for (index_t i = 0; i < 2; ++i) {
          const double s = (i == 0 ? 1.0 : -1.0) * double{size}, cap = softcap.value_or(0);
          const double score = cap > 0 ? cap * std::tanh(s / cap) : s, share = 1 / (1 + std::exp(row_max - score));
          EXPECT_NEAR(out(0, i, 0, 0), 2 - share, 1e-5) << size << " below " << cap << " beside " << row_max;
        }
        std::feclearexcept(kFaults);
        extra_key_backward<float>(extra, q.view(), out.view(), options, {out.view(), max.view(), sum.view()},
                                  {.dq = dq.view(), .dbias_k = &dbias_k, .dbias_v = &dbias_v});
        EXPECT_EQ(std::fetestexcept(kFaults), 0) << "backward, " << size << " below " << softcap.value_or(0);
      }
    }
  }
}

}  // namespace
}  // namespace multihead::nn
