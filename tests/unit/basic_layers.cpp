// The layers around attention: values against plain formulas in f64, gradients against central differences in f64.
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <functional>
#include <numbers>

#include "multihead/nn/embedding.hpp"
#include "multihead/nn/feed_forward.hpp"
#include "multihead/nn/layer_norm.hpp"
#include "tests/support/layer_gradients.hpp"

namespace multihead::nn {
namespace {

using test::dot, test::expect_gradient, test::fill, test::largest_difference, test::Random, test::widen;

// For a layer with forward(x, y) and backward(x, dy, dx, &gradients): all its gradients, and that those of the
// parameters are added to what is there.
template <class Layer>
void expect_layer_gradients(Layer& layer, Layer gradients, index_t n, index_t in, index_t out) {
  Random random(test::run_seed());
  Tensor<double, 2> x({n, in}), y({n, out}), dy({n, out}), dx({n, in});
  fill(x, random, 0.3);
  fill(dy, random, 0.2);
  gradients.for_each([&](const auto&, auto& tensor) { std::fill_n(tensor.data(), tensor.size(), 1.0); });
  layer.backward(x, dy, dx, &gradients);
  gradients.for_each([&](const auto&, auto& tensor) {
    for (index_t i = 0; i < tensor.size(); ++i) tensor.data()[i] -= 1.0;
  });
  const auto loss = [&] {
    layer.forward(x, y);
    return dot(y, dy);
  };
  expect_gradient<2>("dx", x, dx, loss);
  if constexpr (requires { layer.bias; }) expect_gradient<1>("dbias", layer.bias, gradients.bias, loss);
  constexpr int kRank = std::is_same_v<Layer, LayerNorm<double>> ? 1 : 2;
  expect_gradient<kRank>("dweight", layer.weight, gradients.weight, loss);
}

TEST(Linear, IsTheProductPlusTheBias) {
  Random random(test::run_seed());
  Linear<float> layer(5, 3);
  fill(layer.weight, random);
  fill(layer.bias, random);
  Tensor<float, 2> x({4, 5}), y({4, 3});
  fill(x, random, 10);
  layer.forward(x, y);
  for (index_t n = 0; n < 4; ++n) {
    for (index_t o = 0; o < 3; ++o) {
      double expected = layer.bias(o);
      for (index_t i = 0; i < 5; ++i) expected += static_cast<double>(x(n, i)) * layer.weight(o, i);
      EXPECT_NEAR(y(n, o), expected, 1e-5);
    }
  }
}

TEST(Linear, Gradients) {
  Random random(test::run_seed());
  Linear<double> layer(5, 3);
  fill(layer.weight, random);
  fill(layer.bias, random);
  expect_layer_gradients(layer, Linear<double>(5, 3), 4, 5, 3);
}

TEST(Linear, RefusesShapesThatDoNotFit) {
  const Linear<float> layer(5, 3);
  Tensor<float, 2> x({2, 4}), y({2, 3});
  try {
    layer.forward(x, y);
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(),
                 "Linear: x must be [n, in_features] and y [n, out_features], got x=[2, 4], y=[2, 3], weight=[3, 5]");
  }
}

TEST(LayerNorm, HasMeanBiasAndTheSpreadOfItsWeight) {
  Random random(test::run_seed());
  for (const index_t features : {1, 2, 7, 8, 9, 384}) {
    for (const double offset : {0.0, 1000.0}) {
      LayerNorm<float> layer(features, 1e-12);
      fill(layer.weight, random, 1);
      fill(layer.bias, random);
      Tensor<float, 2> x({3, features}), y({3, features});
      fill(x, random, offset);
      layer.forward(x, y);
      Tensor<double, 2> expected({3, features});
      for (index_t n = 0; n < 3; ++n) {
        double mean = 0, variance = 0;
        for (index_t j = 0; j < features; ++j) mean += x(n, j) / static_cast<double>(features);
        for (index_t j = 0; j < features; ++j) variance += std::pow(x(n, j) - mean, 2) / static_cast<double>(features);
        for (index_t j = 0; j < features; ++j) {
          expected(n, j) = (x(n, j) - mean) / std::sqrt(variance + 1e-12) * layer.weight(j) + layer.bias(j);
        }
      }
      EXPECT_LT(largest_difference(y, expected), 2e-6) << features << " features around " << offset;
      layer.forward(x, x);
      EXPECT_EQ(largest_difference(x, widen(y)), 0) << "in place";
    }
  }
}

TEST(LayerNorm, Gradients) {
  Random random(test::run_seed());
  for (const index_t features : {1, 3, 11}) {
    LayerNorm<double> layer(features, 1e-3);
    fill(layer.weight, random, 1);
    fill(layer.bias, random);
    expect_layer_gradients(layer, LayerNorm<double>(features, 1e-3), 70, features, features);
  }
}

TEST(Activation, ValuesAreThoseOfTheFormulas) {
  Tensor<double, 2> x({1, 2001}), y({1, 2001});
  for (index_t j = 0; j < 2001; ++j) x(0, j) = static_cast<double>(j - 1000) / 100;
  const auto expect = [&](Activation activation, const std::function<double(double)>& formula) {
    activation_forward<double>(activation, x.view(), y);
    for (index_t j = 0; j < 2001; ++j) EXPECT_NEAR(y(0, j), formula(x(0, j)), 1e-14) << x(0, j);
  };
  expect(Activation::relu, [](double v) { return std::max(v, 0.0); });
  expect(Activation::gelu, [](double v) { return v / 2 * (1 + std::erf(v / std::numbers::sqrt2)); });
  expect(Activation::gelu_tanh, [](double v) {
    return v / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
  });
}

TEST(Activation, SinglePrecisionFollowsDouble) {
  constexpr index_t kCount = 40'001;
  Tensor<float, 2> x({1, kCount}), y({1, kCount});
  for (index_t j = 0; j < kCount; ++j) x(0, j) = static_cast<float>(j - kCount / 2) / 1000;
  Tensor<double, 2> exact({1, kCount});
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
    activation_forward<float>(activation, x.view(), y);
    const Tensor<double, 2> wide = widen(x);
    activation_forward<double>(activation, wide, exact);
    for (index_t j = 0; j < kCount; ++j) {
      EXPECT_NEAR(y(0, j), exact(0, j), 3e-7 * std::max(1.0, std::abs(exact(0, j)))) << x(0, j);
    }
  }
}

TEST(Activation, NaNStaysNaNAndInfinityIsALimit) {
  const float infinity = std::numeric_limits<float>::infinity();
  Tensor<float, 2> x({1, 3}), y({1, 3});
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
    x(0, 0) = std::numeric_limits<float>::quiet_NaN(), x(0, 1) = infinity, x(0, 2) = 200.0f;
    activation_forward<float>(activation, x.view(), y);
    EXPECT_TRUE(std::isnan(y(0, 0)));
    EXPECT_EQ(y(0, 1), infinity);
    EXPECT_EQ(y(0, 2), 200.0f);
  }
}

template <class T>
void expect_limits() {
  const T infinity = std::numeric_limits<T>::infinity(), largest = std::numeric_limits<T>::max(),
          nan = std::numeric_limits<T>::quiet_NaN();
  const std::vector<T> far{T(41), T(200), T(1e20), T(3e38), largest, infinity};
  const auto n = 2 * static_cast<index_t>(far.size()) + 1;
  Tensor<T, 2> x({1, n}), y({1, n}), ones({1, n}), dx({1, n});
  std::fill_n(ones.data(), n, T{1});
  for (std::size_t i = 0; i < far.size(); ++i) x.data()[2 * i] = far[i], x.data()[2 * i + 1] = -far[i];
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
    x(0, n - 1) = 1;
    std::feclearexcept(FE_ALL_EXCEPT);
    activation_forward<T>(activation, x.view(), y);
    activation_backward<T>(activation, x.view(), ones.view(), dx);
    EXPECT_EQ(std::fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW), 0);
    for (index_t i = 0; i + 1 < n; ++i) {
      EXPECT_EQ(y(0, i), x(0, i) > 0 ? x(0, i) : 0) << "activation " << int(activation) << " of " << x(0, i);
      EXPECT_EQ(dx(0, i), x(0, i) > 0 ? 1 : 0) << "slope of activation " << int(activation) << " at " << x(0, i);
    }
    x(0, n - 1) = nan;
    activation_forward<T>(activation, x.view(), y);
    EXPECT_TRUE(std::isnan(y(0, n - 1)));
    activation_backward<T>(activation, x.view(), ones.view(), dx);
    EXPECT_TRUE(activation == Activation::relu || std::isnan(dx(0, n - 1)));
  }
}

TEST(Activation, FarFromZeroIsTheLimit) {
  expect_limits<float>();
  expect_limits<double>();
}

TEST(Activation, Gradients) {
  Random random(test::run_seed());
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
    Tensor<double, 2> x({3, 9}), y({3, 9}), dy({3, 9}), dx({3, 9});
    fill(x, random);
    for (index_t i = 0; i < x.size(); ++i) x.data()[i] = 3 * x.data()[i] + (x.data()[i] > 0 ? 0.1 : -0.1);  // not at 0
    fill(dy, random, 0.5);
    activation_backward<double>(activation, x.view(), dy.view(), dx);
    expect_gradient<2>("dx", x, dx, [&] {
      activation_forward<double>(activation, x.view(), y);
      return dot(y, dy);
    });
  }
}

TEST(Embedding, LooksRowsUpAndAddsGradientsBack) {
  Random random(test::run_seed());
  Embedding<float> table(5, 3), gradients(5, 3);
  fill(table.weight, random);
  const index_t ids[] = {4, 0, 4};
  const TensorView<const index_t, 1> view(ids, {3});
  Tensor<float, 2> y({3, 3});
  table.forward(view, y);
  for (index_t j = 0; j < 3; ++j) EXPECT_EQ(y(2, j), table.weight(4, j));
  table.forward(view, y, true);
  EXPECT_EQ(y(1, 2), 2 * table.weight(0, 2));
  Tensor<float, 2> dy({3, 3});
  std::fill_n(dy.data(), 9, 1.0f);
  table.backward(view, dy, gradients);
  EXPECT_EQ(gradients.weight(4, 1), 2.0f);
  EXPECT_EQ(gradients.weight(0, 1), 1.0f);
  EXPECT_EQ(gradients.weight(3, 1), 0.0f);
}

TEST(Embedding, NamesTheIdThatHasNoRow) {
  const Embedding<float> table(5, 3);
  for (const index_t bad : {index_t{5}, index_t{-1}}) {
    const index_t ids[] = {4, bad};
    Tensor<float, 2> y({2, 3});
    y(0, 0) = 7;
    try {
      table.forward(TensorView<const index_t, 1>(ids, {2}), y);
      FAIL();
    } catch (const ShapeError& error) {
      EXPECT_EQ(error.what(), "Embedding: an id must be in [0, num_rows), got id=" + std::to_string(bad) +
                                  ", position=1, num_rows=5");
    }
    EXPECT_EQ(y(0, 0), 7) << "nothing is written before the check";
  }
}

template <class T>
FeedForward<T> random_feed_forward(index_t features, index_t hidden, Activation activation, Random& random) {
  FeedForward<T> layer(features, hidden, activation);
  layer.for_each([&](const auto&, auto& tensor) { fill(tensor, random); });
  return layer;
}

TEST(FeedForward, IsUpActivationDownForManyTokensToo) {
  Random random(test::run_seed());
  const auto layer = random_feed_forward<float>(4, 6, Activation::gelu, random);
  Tensor<float, 2> x({1100, 4}), y({1100, 4}), hidden({1100, 6}), expected({1100, 4});
  fill(x, random);
  layer.forward(x, y);
  layer.up.forward(x, hidden);
  activation_forward<float>(Activation::gelu, hidden.view(), hidden);
  layer.down.forward(hidden, expected);
  EXPECT_LT(largest_difference(y, widen(expected)), 1e-5);
  FeedForwardActivations<float> activations;
  Tensor<float, 2> again({1100, 4});
  layer.forward(x, again, nullptr, &activations);
  EXPECT_EQ(largest_difference(again, widen(y)), 0) << "the same whether activations are kept or not";
  auto packed = random_feed_forward<float>(4, 6, Activation::gelu, random);
  packed.pack_weights();
  EXPECT_TRUE(packed.up.packed_weight && packed.down.packed_weight);
  packed.forward(x, again);
  packed.up.packed_weight = {}, packed.down.packed_weight = {};
  packed.forward(x, y);
  EXPECT_EQ(largest_difference(again, widen(y)), 0) << "the same whether weights are packed or not";
}

TEST(FeedForward, Gradients) {
  Random random(test::run_seed());
  auto layer = random_feed_forward<double>(3, 5, Activation::gelu_tanh, random);
  FeedForward<double> gradients(3, 5, Activation::gelu_tanh);
  Tensor<double, 2> x({4, 3}), y({4, 3}), dy({4, 3}), dx({4, 3});
  fill(x, random);
  fill(dy, random, 0.5);
  FeedForwardActivations<double> activations;
  layer.forward(x, y, nullptr, &activations);
  layer.backward(x, activations, dy, dx, &gradients);
  const auto loss = [&] {
    layer.forward(x, y);
    return dot(y, dy);
  };
  expect_gradient<2>("dx", x, dx, loss);
  expect_gradient<2>("dup", layer.up.weight, gradients.up.weight, loss);
  expect_gradient<2>("ddown", layer.down.weight, gradients.down.weight, loss);
  expect_gradient<1>("dup.bias", layer.up.bias, gradients.up.bias, loss);
}

TEST(BasicLayers, AnyNumberOfThreadsGivesTheSameBits) {
  Random random(test::run_seed());
  const auto layer = random_feed_forward<float>(33, 65, Activation::gelu, random);
  const LayerNorm<float> norm(33);
  Tensor<float, 2> x({130, 33}), dy({130, 33});
  fill(x, random, 1);
  fill(dy, random, 1);
  std::vector<float> first;
  for (const int num_threads : {1, 2, 5}) {
    Threads threads(num_threads);
    std::vector<float> bits;
    const auto keep = [&](const auto& name, auto& tensor) {
      (void)name;
      bits.insert(bits.end(), tensor.data(), tensor.data() + tensor.size());
    };
    FeedForward<float> gradients(33, 65, Activation::gelu);
    LayerNorm<float> norm_gradients(33);
    FeedForwardActivations<float> activations;
    Tensor<float, 2> y({130, 33}), dx({130, 33}), dx_norm({130, 33});
    layer.forward(x, y, &threads, &activations);
    layer.backward(x, activations, dy, dx, &gradients, &threads);
    norm.forward(y, y, &threads);
    norm.backward(x, dy, dx_norm, &norm_gradients, &threads);
    for (auto* tensor : {&y, &dx, &dx_norm}) keep("", *tensor);
    gradients.for_each(keep);
    norm_gradients.for_each(keep);
    if (first.empty()) first = bits;
    EXPECT_EQ(bits, first) << num_threads << " threads";
  }
}

}  // namespace
}  // namespace multihead::nn
