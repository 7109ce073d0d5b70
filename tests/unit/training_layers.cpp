// Layers that training needs: values against plain formulas in f64, gradients against central differences in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "multihead/nn/dropout.hpp"
#include "multihead/nn/feed_forward.hpp"
#include "multihead/nn/gated_feed_forward.hpp"
#include "multihead/nn/layer_norm.hpp"
#include "multihead/nn/positions.hpp"
#include "multihead/nn/rms_norm.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/layer_gradients.hpp"

namespace multihead::nn {
namespace {

using test::dot, test::expect_gradient, test::fill, test::largest_difference, test::Random, test::widen;

constexpr index_t kOffsets[] = {0, 3, 3, 8};
constexpr index_t kIds[] = {7, 1, 4'000'000'000};

RowDropout some_dropout(double probability) {
  return {probability, dropout_key(1, 2, 3), TensorView<const index_t, 1>(kOffsets, {4}),
          TensorView<const index_t, 1>(kIds, {3})};
}

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  Random random(test::run_seed());
  for (const index_t features : {1, 7, 8, 33}) {
    RmsNorm<float> layer(features, 1e-6);
    fill(layer.weight, random, 1);
    Tensor<float, 2> x({5, features}), y({5, features});
    fill(x, random, 2);
    layer.forward(x, y);
    for (index_t n = 0; n < 5; ++n) {
      double squares = 0;
      for (index_t j = 0; j < features; ++j) squares += double(x(n, j)) * x(n, j);
      const double root = std::sqrt(squares / double(features) + 1e-6);
      for (index_t j = 0; j < features; ++j) EXPECT_NEAR(y(n, j), x(n, j) / root * layer.weight(j), 1e-6);
    }
  }
}

TEST(RmsNorm, Gradients) {
  Random random(test::run_seed());
  for (const index_t features : {1, 3, 11}) {
    RmsNorm<double> layer(features, 1e-2), gradients(features);
    fill(layer.weight, random, 1);
    std::fill_n(gradients.weight.data(), features, 0.0);
    Tensor<double, 2> x({40, features}), y({40, features}), dy({40, features}), dx({40, features});
    fill(x, random, 0.3);
    fill(dy, random, 0.2);
    layer.backward(x, dy, dx, &gradients);
    const auto loss = [&] {
      layer.forward(x, y);
      return dot(y, dy);
    };
    expect_gradient<2>("dx", x, dx, loss);
    expect_gradient<1>("dweight", layer.weight, gradients.weight, loss);
  }
}

TEST(LayerNorm, SinglePrecisionGradientsFollowDouble) {
  Random random(test::run_seed());
  for (const index_t features : {1, 5, 16, 67, 256}) {
    for (const double offset : {0.0, 300.0}) {
      LayerNorm<float> layer(features), gradients(features);
      fill(layer.weight, random, 1);
      std::fill_n(gradients.weight.data(), features, 0.0f);
      Tensor<float, 2> x({70, features}), dy({70, features}), dx({70, features});
      fill(x, random, offset);
      fill(dy, random, 0.2);
      layer.backward(x, dy, dx, &gradients);
      LayerNorm<double> wide(features), exact(features);
      wide.weight = widen(layer.weight);
      std::fill_n(exact.weight.data(), features, 0.0);
      Tensor<double, 2> dx_exact({70, features});
      const Tensor<double, 2> wide_x = widen(x), wide_dy = widen(dy);
      wide.backward(wide_x, wide_dy, dx_exact, &exact);
      const double scale = features == 1 ? 1e3 : 10;  // 1 / sqrt(variance) reaches 1 / sqrt(epsilon)
      EXPECT_LT(largest_difference(dx, dx_exact), 2e-6 * scale) << features << " features around " << offset;
      EXPECT_LT(largest_difference(gradients.weight, exact.weight), 1e-4);
      EXPECT_LT(largest_difference(gradients.bias, exact.bias), 1e-4);
    }
  }
}

TEST(Dropout, KeepsWhatTheCounterSaysAndScalesIt) {
  Random random(test::run_seed());
  for (const index_t features : {1, 3, 4, 63, 64, 130}) {
    const RowDropout dropout = some_dropout(0.25);
    Tensor<float, 2> x({8, features}), y({8, features});
    fill(x, random, 3);
    apply_dropout<float>(dropout, x.view(), y);
    Tensor<double, 2> wide = widen(x);
    apply_dropout<double>(dropout, wide.view(), wide);
    for (index_t b = 0; b < 3; ++b) {
      for (index_t n = kOffsets[b]; n < kOffsets[b + 1]; ++n) {
        for (index_t j = 0; j < features; ++j) {
          const bool kept = row_dropout_keeps(dropout, kIds[b], n - kOffsets[b], j);
          EXPECT_FLOAT_EQ(y(n, j), kept ? x(n, j) / 0.75f : 0.0f) << n << ", " << j;
          EXPECT_DOUBLE_EQ(wide(n, j), kept ? x(n, j) / 0.75 : 0.0);
        }
      }
    }
    Tensor<float, 2> sum = x.clone();
    apply_dropout<float>(dropout, x.view(), sum, true);
    for (index_t n = 0; n < x.size(); ++n) EXPECT_FLOAT_EQ(sum.data()[n], x.data()[n] + y.data()[n]);
  }
}

TEST(Dropout, DropsTheShareItWasAskedFor) {
  constexpr index_t kRows = 400, kFeatures = 500, kWhole[] = {0, kRows};
  Tensor<float, 2> x({kRows, kFeatures}), y({kRows, kFeatures});
  std::fill_n(x.data(), x.size(), 1.0f);
  for (const double p : {0.0, 0.1, 0.5, 1.0}) {
    apply_dropout<float>({p, dropout_key(test::run_seed(), 1, 1), TensorView<const index_t, 1>(kWhole, {2})}, x.view(),
                         y);
    const auto dropped = static_cast<double>(std::count(y.data(), y.data() + y.size(), 0.0f));
    const double n = double(x.size());
    EXPECT_NEAR(dropped / n, p, 6 * std::sqrt(p * (1 - p) / n)) << p;
  }
}

TEST(Dropout, ASequenceAloneLosesWhatItLosesInABatch) {
  Random random(test::run_seed());
  Tensor<float, 2> x({8, 20}), y({8, 20}), alone({5, 20});
  fill(x, random, 3);
  apply_dropout<float>(some_dropout(0.5), x.view(), y);
  const index_t offsets[] = {0, 5};
  const RowDropout last{0.5, dropout_key(1, 2, 3), TensorView<const index_t, 1>(offsets, {2}),
                        TensorView<const index_t, 1>(kIds + 2, {1})};
  apply_dropout<float>(last, x.view().slice(0, 3, 8), alone);
  EXPECT_TRUE(std::equal(alone.data(), alone.data() + alone.size(), y.data() + 3 * 20));
}

TEST(Dropout, KeysOfNeighboursDiffer) {
  EXPECT_NE(dropout_key(1, 11, 0), dropout_key(2, 10, 0));
  EXPECT_NE(dropout_key(1, 0, 1), dropout_key(1, 1, 0));
  EXPECT_NE(dropout_key(0, 0, 1), dropout_key(0, 1, 0));
}

TEST(Dropout, RefusesWhatDoesNotFit) {
  Tensor<float, 2> x({7, 2}), y({7, 2});
  const auto call = [&](double p) { apply_dropout<float>(some_dropout(p), x.view(), y); };
  EXPECT_EQ(test::error_of([&] { call(1.5); }), "apply_dropout: probability must be in [0, 1], got probability=1.5");
  EXPECT_EQ(test::error_of([&] { call(0.5); }),
            "apply_dropout: offsets must go from 0 to the rows of x, got first=0, last=8, x=[7, 2]");
  const index_t offsets[] = {0, 3, 7};
  for (const index_t wrong : {index_t{-1}, index_t{1} << 32}) {
    const index_t ids[] = {0xffffffff, wrong};
    const RowDropout dropout{0.5, 1, TensorView<const index_t, 1>(offsets, {3}),
                             TensorView<const index_t, 1>(ids, {2})};
    EXPECT_EQ(test::error_of([&] { apply_dropout<float>(dropout, x.view(), y); }),
              "apply_dropout: sequence_ids must be in [0, 2^32), got b=1, sequence_id=" + std::to_string(wrong));
  }
}

TEST(Positions, AreTheFormulasInBothOrders) {
  for (const index_t features : {1, 2, 5, 8}) {
    const auto paper = sinusoidal_positions<double>(Sinusoids::interleaved, 6, features);
    const auto halves = sinusoidal_positions<double>(Sinusoids::halves, 6, features, 2);
    for (index_t p = 0; p < 6; ++p) {
      for (index_t j = 0; j < features; ++j) {
        const double rate = std::pow(10000.0, -double(j - j % 2) / double(features));
        EXPECT_NEAR(paper(p, j), j % 2 == 0 ? std::sin(double(p) * rate) : std::cos(double(p) * rate), 1e-14);
        const index_t half = features / 2, i = half > 0 ? j % half : 0;
        const double halves_rate = std::pow(10000.0, half > 1 ? -double(i) / double(half - 1) : 0.0);
        const double angle = double(p + 2) * halves_rate;
        const double expected = j >= 2 * half ? 0 : j < half ? std::sin(angle) : std::cos(angle);
        EXPECT_NEAR(halves(p, j), expected, 1e-14) << p << ", " << j << " of " << features;
      }
    }
  }
}

TEST(Positions, OfPackedRowsBeginAnewInEachSequence) {
  const Tensor<index_t, 1> positions = packed_positions(TensorView<const index_t, 1>(kOffsets, {4}));
  EXPECT_EQ(std::vector<index_t>(positions.data(), positions.data() + 8),
            (std::vector<index_t>{0, 1, 2, 0, 1, 2, 3, 4}));
}

TEST(Activation, SiluIsItsFormulaInBothPrecisions) {
  constexpr index_t kCount = 20'001;
  Tensor<float, 2> x({1, kCount}), y({1, kCount}), dx({1, kCount}), ones({1, kCount});
  for (index_t j = 0; j < kCount; ++j) x(0, j) = static_cast<float>(j - kCount / 2) / 200;
  std::fill_n(ones.data(), kCount, 1.0f);
  activation_forward<float>(Activation::silu, x.view(), y);
  activation_backward<float>(Activation::silu, x.view(), ones.view(), dx);
  Tensor<double, 2> wide = widen(x), exact({1, kCount});
  activation_forward<double>(Activation::silu, wide.view(), exact);
  for (index_t j = 0; j < kCount; ++j) {
    const double v = x(0, j), s = 1 / (1 + std::exp(-v)), value = v * s, slope = s * (1 + v * (1 - s));
    EXPECT_NEAR(exact(0, j), value, 1e-14 * std::max(1.0, std::abs(value)));
    EXPECT_NEAR(y(0, j), value, 4e-7 * std::max(1.0, std::abs(value))) << v;
    EXPECT_NEAR(dx(0, j), slope, 1e-6) << v;
  }
}

TEST(Activation, SiluFarFromZeroIsItsLimit) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> far{-infinity, -3e38f, -200.0f, 200.0f, 3e38f, infinity};
  Tensor<float, 2> x({1, 7}), y({1, 7}), ones({1, 7}), dx({1, 7});
  std::copy(far.begin(), far.end(), x.data());
  x(0, 6) = std::numeric_limits<float>::quiet_NaN();
  std::fill_n(ones.data(), 7, 1.0f);
  const auto expect = [&](const auto& values, const auto& slopes) {
    for (index_t j = 0; j < 6; ++j) {
      EXPECT_EQ(values(0, j), x(0, j) > 0 ? x(0, j) : 0) << x(0, j);
      EXPECT_EQ(slopes(0, j), x(0, j) > 0 ? 1 : 0) << x(0, j);
    }
    EXPECT_TRUE(std::isnan(values(0, 6)) && std::isnan(slopes(0, 6)));
  };
  activation_forward<float>(Activation::silu, x.view(), y);
  activation_backward<float>(Activation::silu, x.view(), ones.view(), dx);
  expect(y, dx);
  const Tensor<double, 2> wide = widen(x), wide_ones = widen(ones);
  Tensor<double, 2> wide_y({1, 7}), wide_dx({1, 7});
  activation_forward<double>(Activation::silu, wide.view(), wide_y);
  activation_backward<double>(Activation::silu, wide.view(), wide_ones.view(), wide_dx);
  EXPECT_EQ(wide_y(0, 0), 0);
  EXPECT_NEAR(wide_y(0, 2), 0, 1e-80);
  EXPECT_EQ(wide_dx(0, 5), 1);
}

TEST(Activation, SiluGradients) {
  Random random(test::run_seed());
  Tensor<double, 2> x({3, 9}), y({3, 9}), dy({3, 9}), dx({3, 9});
  fill(x, random);
  fill(dy, random, 0.5);
  activation_backward<double>(Activation::silu, x.view(), dy.view(), dx);
  expect_gradient<2>("dx", x, dx, [&] {
    activation_forward<double>(Activation::silu, x.view(), y);
    return dot(y, dy);
  });
}

template <class Layer, class Activations>
void expect_gradients_with_dropout(Layer layer, Layer gradients) {
  Random random(test::run_seed());
  layer.for_each([&](const auto&, auto& tensor) { fill(tensor, random); });
  const RowDropout dropout = some_dropout(0.4);
  Tensor<double, 2> x({8, 3}), y({8, 3}), dy({8, 3}), dx({8, 3});
  fill(x, random);
  fill(dy, random, 0.5);
  Activations activations;
  layer.forward(x, y, nullptr, &activations, dropout);
  layer.backward(x, activations, dy, dx, &gradients, nullptr, dropout);
  const auto loss = [&] {
    layer.forward(x, y, nullptr, &activations, dropout);
    return dot(y, dy);
  };
  expect_gradient<2>("dx", x, dx, loss);
  expect_gradient<2>("dup", layer.up.weight, gradients.up.weight, loss);
  expect_gradient<2>("ddown", layer.down.weight, gradients.down.weight, loss);
  expect_gradient<1>("dup.bias", layer.up.bias, gradients.up.bias, loss);
  if constexpr (requires { layer.gate; }) {
    expect_gradient<2>("dgate", layer.gate.weight, gradients.gate.weight, loss);
    expect_gradient<1>("dgate.bias", layer.gate.bias, gradients.gate.bias, loss);
  }
}

TEST(FeedForward, GradientsWithDropout) {
  const FeedForward<double> zeros(3, 5, Activation::silu);
  expect_gradients_with_dropout<FeedForward<double>, FeedForwardActivations<double>>(
      FeedForward<double>(3, 5, Activation::silu), FeedForward<double>(3, 5, Activation::silu));
}

TEST(GatedFeedForward, Gradients) {
  expect_gradients_with_dropout<GatedFeedForward<double>, GatedFeedForwardActivations<double>>(
      GatedFeedForward<double>(3, 5), GatedFeedForward<double>(3, 5));
}

TEST(GatedFeedForward, IsDownOfTheProduct) {
  Random random(test::run_seed());
  GatedFeedForward<double> layer(3, 5);
  layer.for_each([&](const auto&, auto& tensor) { fill(tensor, random); });
  Tensor<double, 2> x({4, 3}), y({4, 3});
  fill(x, random);
  layer.forward(x, y);
  for (index_t n = 0; n < 4; ++n) {
    for (index_t o = 0; o < 3; ++o) {
      double expected = layer.down.bias(o);
      for (index_t h = 0; h < 5; ++h) {
        double gate = layer.gate.bias(h), up = layer.up.bias(h);
        for (index_t j = 0; j < 3; ++j)
          gate += x(n, j) * layer.gate.weight(h, j), up += x(n, j) * layer.up.weight(h, j);
        expected += gate / (1 + std::exp(-gate)) * up * layer.down.weight(o, h);
      }
      EXPECT_NEAR(y(n, o), expected, 1e-13);
    }
  }
}

}  // namespace
}  // namespace multihead::nn
