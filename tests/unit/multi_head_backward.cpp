// MultiHeadAttention backward: every gradient against central differences, in f64; f32 against f64.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/layer_problem.hpp"

namespace multihead::nn {
namespace {

using test::LayerCase;
using test::LayerProblem;
using test::Random;
using test::random_tensor;
using test::y_of;

// Everything that backward gives for a problem.
template <class T>
struct AllGradients {
  Tensor<T, 3> dx_q, dx_k, dx_v;
  MultiHeadParameters<T> parameters;
  Tensor<T, 2> dgates;
  Tensor<T, 4> dbias;

  explicit AllGradients(const LayerProblem<T>& p)
      : dx_q(p.x_q.shape()),
        dx_k(p.x_k.shape()),
        dx_v(p.x_v.shape()),
        parameters(p.layer.zero_gradients()),
        dgates({LayerProblem<T>::kBatch, p.layer.num_heads()}),
        dbias(p.bias.shape()) {
    const MultiHeadOptions<T> options = p.options();
    MultiHeadActivations<T> activations;
    Tensor<T, 3> y(p.dy.shape());
    p.layer.forward(p.input(), {.y = y.view()}, options, &activations);
    MultiHeadGradients<T> gradients{.dx_q = dx_q.view(), .parameters = &parameters, .dgates = dgates.view()};
    if (p.c.cross) gradients.dx_k = dx_k.view(), gradients.dx_v = dx_v.view();
    if (p.c.bias) gradients.dbias = dbias.view();
    p.layer.backward(p.input(), activations, p.dy.view(), gradients, options);
  }
};

double loss(const LayerProblem<double>& p, const MultiHeadOptions<double>& options) {
  const Tensor<double, 3> y = y_of(p.layer, p.input(), options);
  double sum = 0;
  for (index_t n = 0; n < y.size(); ++n) sum += y.data()[n] * p.dy.data()[n];
  return sum;
}

// (L(x + h) - L(x - h)) / 2h for each entry of x.
void expect_differences(const LayerProblem<double>& p, const MultiHeadOptions<double>& options, double* x,
                        const double* gradient, index_t size, std::string_view name) {
  for (index_t n = 0; n < size; ++n) {
    const double value = x[n], h = 1e-5;
    x[n] = value + h;
    const double above = loss(p, options);
    x[n] = value - h;
    const double below = loss(p, options);
    x[n] = value;
    const double difference = (above - below) / (2 * h);
    EXPECT_NEAR(gradient[n], difference, 1e-8 * std::max(1.0, std::abs(difference))) << name << " entry " << n;
  }
}

class MultiHeadBackward : public testing::TestWithParam<LayerCase> {};

TEST_P(MultiHeadBackward, IsTheCentralDifference) {
  LayerProblem<double> p(GetParam(), test::run_seed());
  const MultiHeadOptions<double> options = p.options();
  AllGradients<double> g(p);
  expect_differences(p, options, p.x_q.data(), g.dx_q.data(), p.x_q.size(), "dx_q");
  if (p.c.cross) {
    expect_differences(p, options, p.x_k.data(), g.dx_k.data(), p.x_k.size(), "dx_k");
    expect_differences(p, options, p.x_v.data(), g.dx_v.data(), p.x_v.size(), "dx_v");
  }
  if (p.c.bias) expect_differences(p, options, p.bias.data(), g.dbias.data(), p.bias.size(), "dbias");
  std::vector<std::pair<std::string, const double*>> gradients;
  g.parameters.for_each([&](const char* name, auto& d) { gradients.emplace_back(name, d.data()); });
  std::size_t at = 0;
  p.layer.parameters().for_each([&](const char* name, auto& w) {
    ASSERT_EQ(gradients[at].first, name);
    expect_differences(p, options, w.data(), gradients[at++].second, w.size(), std::string("d") + name);
  });
  ASSERT_EQ(at, gradients.size());
  if (!p.c.gates) return;
  Tensor<double, 1> dgates({p.layer.num_heads()});  // one gate for all sequences gets the sum of theirs
  for (index_t s = 0; s < g.dgates.shape(0); ++s) {
    for (index_t h = 0; h < dgates.size(); ++h) dgates(h) += g.dgates(s, h);
  }
  expect_differences(p, options, p.gates.data(), dgates.data(), dgates.size(), "dgates");
}

// f32 gradients are the f64 ones of the same numbers, up to 64 ulp of the largest entry.
TEST_P(MultiHeadBackward, IsTheSameInF32) {
  LayerProblem<float> narrow(GetParam(), test::run_seed());
  LayerProblem<double> wide(GetParam(), test::run_seed());
  const AllGradients<float> a(narrow);
  const AllGradients<double> b(wide);
  const auto compare = [](const char* name, const auto& x, const auto& truth) {
    double error = 0, largest = 0;
    for (index_t n = 0; n < truth.size(); ++n) {
      error = std::max(error, std::abs(static_cast<double>(x.data()[n]) - truth.data()[n]));
      largest = std::max(largest, std::abs(truth.data()[n]));
    }
    EXPECT_LE(error, 64 * 0x1p-23 * std::max(largest, 1.0)) << name;
  };
  compare("dx_q", a.dx_q, b.dx_q), compare("dx_k", a.dx_k, b.dx_k), compare("dx_v", a.dx_v, b.dx_v);
  compare("dgates", a.dgates, b.dgates), compare("dbias", a.dbias, b.dbias);
  const MultiHeadParameters<float>& p = a.parameters;
  const MultiHeadParameters<double>& q = b.parameters;
  compare("w_q", p.w_q, q.w_q), compare("w_k", p.w_k, q.w_k), compare("w_v", p.w_v, q.w_v),
      compare("w_o", p.w_o, q.w_o);
  compare("b_q", p.b_q, q.b_q), compare("b_k", p.b_k, q.b_k), compare("b_v", p.b_v, q.b_v),
      compare("b_o", p.b_o, q.b_o);
  compare("q_norm", p.q_norm, q.q_norm), compare("k_norm", p.k_norm, q.k_norm), compare("sinks", p.sinks, q.sinks);
  compare("bias_k", p.bias_k, q.bias_k), compare("bias_v", p.bias_v, q.bias_v);
}

INSTANTIATE_TEST_SUITE_P(Layer, MultiHeadBackward, testing::ValuesIn(test::layer_cases()),
                         [](const auto& param) { return param.param.name; });

// Parameter gradients add up over calls, those of inputs are overwritten; absent ones cost nothing and change nothing.
TEST(MultiHeadGradients, ParametersAddUp) {
  LayerProblem<double> p(test::layer_cases()[0], test::run_seed());
  const AllGradients<double> once(p);
  MultiHeadActivations<double> activations;
  Tensor<double, 3> y(p.dy.shape()), dx(p.x_q.shape());
  p.layer.forward(p.input(), {.y = y.view()}, {}, &activations);
  MultiHeadParameters<double> twice = p.layer.zero_gradients();
  p.layer.backward(p.input(), activations, p.dy.view(), {.parameters = &twice});
  p.layer.backward(p.input(), activations, p.dy.view(), {.dx_q = dx.view(), .parameters = &twice});
  p.layer.backward(p.input(), activations, p.dy.view(), {.dx_q = dx.view()});
  for (index_t n = 0; n < dx.size(); ++n) EXPECT_EQ(dx.data()[n], once.dx_q.data()[n]);
  for (index_t n = 0; n < twice.w_q.size(); ++n) {
    EXPECT_NEAR(twice.w_q.data()[n], 2 * once.parameters.w_q.data()[n], 1e-13);
  }
  for (index_t n = 0; n < twice.b_v.size(); ++n) {
    EXPECT_NEAR(twice.b_v.data()[n], 2 * once.parameters.b_v.data()[n], 1e-13);
  }
}

// Two layers of two heads, y = second(first(x)), and the importance of every head: |d loss / d gate|.
struct TwoLayers {
  MultiHeadAttention<double> first, second;
  Tensor<double, 3> x, dy;

  explicit TwoLayers(Random& random)
      : first(test::random_layer<double>({.d_model = 6, .num_heads = 2}, random)),
        second(test::random_layer<double>({.d_model = 6, .num_heads = 2}, random)),
        x(random_tensor<double, 3>(random, {1, 4, 6})),
        dy(random_tensor<double, 3>(random, {1, 4, 6}, 0.3)) {}

  double loss(const Tensor<double, 1>& gates) const {
    const auto middle = y_of(first, {.x_q = x.view()}, {.gates = gates.view().slice(0, 0, 2)});
    const auto y = y_of(second, {.x_q = middle.view()}, {.gates = gates.view().slice(0, 2, 4)});
    double sum = 0;
    for (index_t n = 0; n < y.size(); ++n) sum += y.data()[n] * dy.data()[n];
    return sum;
  }

  std::vector<double> gate_gradients(const Tensor<double, 1>& gates) const {
    const MultiHeadOptions<double> lower{.gates = gates.view().slice(0, 0, 2)};
    const MultiHeadOptions<double> upper{.gates = gates.view().slice(0, 2, 4)};
    MultiHeadActivations<double> of_first, of_second;
    Tensor<double, 3> middle(x.shape()), y(x.shape()), dmiddle(x.shape());
    Tensor<double, 2> dgates({1, 4});
    first.forward({.x_q = x.view()}, {.y = middle.view()}, lower, &of_first);
    second.forward({.x_q = middle.view()}, {.y = y.view()}, upper, &of_second);
    second.backward({.x_q = middle.view()}, of_second, dy.view(),
                    {.dx_q = dmiddle.view(), .dgates = dgates.view().slice(1, 2, 4)}, upper);
    first.backward({.x_q = x.view()}, of_first, dmiddle.view(), {.dgates = dgates.view().slice(1, 0, 2)}, lower);
    return {dgates.data(), dgates.data() + 4};
  }
};

// Attention case 60: importance works a second time, and a gate at 0 still has its gradient.
TEST(MultiHeadGradients, GatesAtZeroStillHaveGradients) {
  Random random(test::run_seed());
  const TwoLayers layers(random);
  Tensor<double, 1> gates({4});
  std::fill_n(gates.data(), 4, 1.0);
  for (int round = 0; round < 2; ++round) {
    const std::vector<double> gradients = layers.gate_gradients(gates);
    std::size_t worst = 0;
    for (std::size_t n = 0; n < 4; ++n) {
      EXPECT_NE(gradients[n], 0.0) << "gate " << n << " at " << gates.data()[n];
      const double value = gates.data()[n], h = 1e-5;
      gates.data()[n] = value + h;
      const double above = layers.loss(gates);
      gates.data()[n] = value - h;
      const double below = layers.loss(gates);
      gates.data()[n] = value;
      EXPECT_NEAR(gradients[n], (above - below) / (2 * h), 1e-8);
      const bool open = gates.data()[n] != 0;
      if (open && (gates.data()[worst] == 0 || std::abs(gradients[n]) < std::abs(gradients[worst]))) worst = n;
    }
    gates.data()[worst] = 0;
  }
}

}  // namespace
}  // namespace multihead::nn
