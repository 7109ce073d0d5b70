// Adam: three steps of PyTorch, f32 against f64, any number of threads, and what is refused.
#include "multihead/nn/adam.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "multihead/threads.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/random.hpp"

namespace multihead::nn {
namespace {

using test::error_of, test::Random;

// A parameter and its moments.
template <class T>
struct Trained {
  std::vector<T> p, m, v;

  explicit Trained(std::vector<T> initial) : p(std::move(initial)), m(p.size()), v(p.size()) {}

  void step(const std::vector<T>& gradient, const AdamOptions& options, const AdamStepOptions& step,
            Executor* threads = nullptr) {
    adam_step<T>({.parameter = p, .gradient = gradient, .mean = m, .mean_of_squares = v}, options, step, threads);
  }
};

// The formula of the header in plain loops of one precision.
template <class T>
void plain_step(Trained<T>& x, const std::vector<T>& gradient, const AdamOptions& o, const AdamStepOptions& s) {
  const double t = static_cast<double>(s.step);
  const T first = static_cast<T>(1 - std::pow(o.beta1, t)), second = static_cast<T>(1 - std::pow(o.beta2, t));
  for (std::size_t i = 0; i < x.p.size(); ++i) {
    const T g = static_cast<T>(s.gradient_scale) * gradient[i];
    x.m[i] = static_cast<T>(o.beta1) * x.m[i] + static_cast<T>(1 - o.beta1) * g;
    x.v[i] = static_cast<T>(o.beta2) * x.v[i] + static_cast<T>(1 - o.beta2) * g * g;
    x.p[i] = static_cast<T>(1 - s.rate * o.weight_decay) * x.p[i] -
             static_cast<T>(s.rate) * (x.m[i] / first) / (std::sqrt(x.v[i] / second) + static_cast<T>(o.epsilon));
  }
}

std::vector<double> widened(const std::vector<float>& x) { return {x.begin(), x.end()}; }

double largest_difference(const std::vector<float>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < b.size(); ++i) most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
  return most;
}

std::vector<float> random_values(Random& random, index_t n, double scale) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = static_cast<float>(random.uniform(-scale, scale));
  return values;
}

// PyTorch 2.15, f64: torch.optim.AdamW([p], lr=0.01, betas=(0.9, 0.98), eps=1e-3, weight_decay=0.1), and before each
// step torch.nn.utils.clip_grad_norm_([p], 1.0), with p and the gradients as they stand here.
TEST(Adam, TakesTheStepsOfPyTorch) {
  const std::vector<std::vector<double>> gradients = {{0.3, -2.0, 0.0}, {-0.1, 0.7, 1e-4}, {4.0, 0.25, -0.5}};
  const std::vector<std::vector<double>> expected = {{0.4895669611261742, -1.2387601016645269, 1.998},
                                                     {0.487691664305807, -1.2363532621967053, 1.9955106060573857},
                                                     {0.48079515302897435, -1.234538886347769, 1.9997516342648722}};
  const std::vector<double> norms = {2.0223748416156684, 0.7071067882576153, 4.038873605350878};
  Trained<double> x({0.5, -1.25, 2.0});
  const AdamOptions options{.beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-3, .weight_decay = 0.1};
  for (std::size_t n = 0; n < 3; ++n) {
    const double squares = sum_of_squares<double>(gradients[n]);
    EXPECT_NEAR(std::sqrt(squares), norms[n], 1e-15 * norms[n]);
    x.step(gradients[n], options,
           {.step = static_cast<index_t>(n) + 1, .rate = 0.01, .gradient_scale = clip_scale(squares, 1.0)});
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(x.p[i], expected[n][i], 1e-15 * std::abs(expected[n][i]));
  }
}

// beta2 = 0.999 is the hard one: 1 - beta2 of a beta2 that is rounded to f32 is wrong in the fifth digit.
TEST(Adam, InSinglePrecisionIsAsCloseToDoubleAsPlainLoops) {
  Random random(test::run_seed());
  for (const index_t n : {1, 3, 15, 16, 17, 100, 40001}) {
    const AdamOptions options{.beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.01};
    Trained<float> fast(random_values(random, n, 2)), plain(fast.p);
    Trained<double> exact(widened(fast.p));
    for (index_t t = 1; t <= 4; ++t) {
      const std::vector<float> gradient = random_values(random, n, std::pow(10.0, random.integer(-6, 3)));
      const AdamStepOptions step{.step = t, .rate = 0.05, .gradient_scale = random.uniform(0.1, 2)};
      fast.step(gradient, options, step);
      plain_step(plain, gradient, options, step);
      plain_step(exact, widened(gradient), options, step);
    }
    const double rounding = 0x1p-22;  // two units in the last place of the largest parameter
    EXPECT_LE(largest_difference(fast.p, exact.p), 2 * largest_difference(plain.p, exact.p) + rounding) << "n=" << n;
    for (std::size_t i = 0; i < exact.v.size(); ++i) {
      EXPECT_NEAR(fast.v[i], exact.v[i], 1e-6 * exact.v[i]) << "n=" << n << ", i=" << i;
    }
  }
}

TEST(Adam, GivesTheSameBitsOnAnyNumberOfThreads) {
  Random random(test::run_seed());
  Threads threads(3);
  const index_t n = 70001;
  Trained<float> alone(random_values(random, n, 1)), shared(alone.p);
  for (index_t t = 1; t <= 3; ++t) {
    const std::vector<float> gradient = random_values(random, n, 1);
    EXPECT_EQ(sum_of_squares<float>(gradient), sum_of_squares<float>(gradient, &threads));
    alone.step(gradient, {}, {.step = t});
    shared.step(gradient, {}, {.step = t}, &threads);
  }
  EXPECT_EQ(alone.p, shared.p);
  EXPECT_EQ(alone.m, shared.m);
  EXPECT_EQ(alone.v, shared.v);
}

TEST(Adam, TouchesNothingBesideItsTensors) {
  Random random(test::run_seed());
  for (const index_t n : {1, 7, 16, 33}) {
    const auto size = static_cast<std::size_t>(n);
    Trained<float> x(std::vector<float>(size + 2, 5.0f));
    const std::vector<float> gradient = random_values(random, n, 1);
    adam_step<float>({.parameter = TensorView<float, 1>(x.p.data() + 1, {n}),
                      .gradient = gradient,
                      .mean = TensorView<float, 1>(x.m.data() + 1, {n}),
                      .mean_of_squares = TensorView<float, 1>(x.v.data() + 1, {n})},
                     {}, {});
    EXPECT_EQ(x.p.front(), 5.0f);
    EXPECT_EQ(x.p.back(), 5.0f);
    EXPECT_TRUE(x.m.front() == 0 && x.m.back() == 0 && x.v.front() == 0 && x.v.back() == 0);
  }
}

TEST(Adam, SumsTheSquaresInDouble) {
  Random random(test::run_seed());
  for (const index_t n : {0, 1, 5, 17, 50000}) {
    // Squares of f32 above 1e19 do not fit f32.
    const std::vector<float> x = random_values(random, n, 1e20);
    double expected = 0;
    for (const float value : x) expected += static_cast<double>(value) * static_cast<double>(value);
    EXPECT_NEAR(sum_of_squares<float>(x), expected, 1e-12 * expected) << "n=" << n;
  }
}

TEST(Adam, ClipsOnlyWhatIsTooLong) {
  EXPECT_EQ(clip_scale(4.0, 3.0), 1.0);
  EXPECT_EQ(clip_scale(0.0, 1.0), 1.0);
  EXPECT_EQ(clip_scale(16.0, 1.0), 1.0 / (4.0 + 1e-6));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(
      error_of<Error>([&] { clip_scale(nan, 1.0); }),
      "clip_scale: sum_of_squares must be finite and not negative, got sum_of_squares=nan; the gradients hold NaN "
      "or infinity");
  EXPECT_EQ(error_of([&] { clip_scale(1.0, 0.0); }), "clip_scale: max_norm must be above 0, got max_norm=0");
}

TEST(Adam, RefusesWhatItCannotDo) {
  Trained<float> x({1.0f, 2.0f});
  const auto error = [&](const AdamOptions& options, const AdamStepOptions& step,
                         std::vector<float> gradient = {1, 1}) {
    return error_of([&] { x.step(gradient, options, step); });
  };
  EXPECT_EQ(error({}, {}, {1, 1, 1}),
            "adam_step: parameter, gradient, mean and mean_of_squares must be contiguous and of one shape [n], got "
            "parameter=[2], gradient=[3], mean=[2], mean_of_squares=[2]");
  EXPECT_EQ(error({.beta2 = 1.0}, {}), "adam_step: beta1 and beta2 must be in [0, 1), got beta1=0.9, beta2=1");
  EXPECT_EQ(error({.epsilon = 0}, {}), "adam_step: epsilon must be finite and at least 1e-30, got epsilon=0");
  EXPECT_EQ(error({}, {.step = 0}), "adam_step: step must be at least 1, got step=0");
  EXPECT_EQ(error({.weight_decay = 4}, {.rate = 0.5}),
            "adam_step: rate and weight_decay must be at least 0, the rate finite, and their product at most 1, got "
            "rate=0.5, weight_decay=4");
  EXPECT_EQ(error({}, {.gradient_scale = std::numeric_limits<double>::infinity()}),
            "adam_step: gradient_scale must be finite, got gradient_scale=inf");
  EXPECT_EQ(x.p, (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace multihead::nn
