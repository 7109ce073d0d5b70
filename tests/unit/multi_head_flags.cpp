// Layers on finite input raise no flag of the floating point unit that means a fault.
#include <gtest/gtest.h>

#include <cfenv>

#include "multihead/nn/layer_norm.hpp"
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

}  // namespace
}  // namespace multihead::nn
