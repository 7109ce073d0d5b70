// The loss over a vocabulary: values against plain formulas in f64, gradients against central differences in f64.
#include "multihead/nn/vocabulary_loss.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "multihead/nn/layer_norm.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/layer_gradients.hpp"

namespace multihead::nn {
namespace {

using test::expect_gradient, test::fill, test::largest_difference, test::Random, test::widen;

// A vocabulary of V words of E features, and rows that look for some of them.
template <class T>
struct LossProblem {
  Tensor<T, 2> weight, x, dweight, dx;
  Tensor<T, 1> bias, dbias;
  Tensor<index_t, 1> targets;
  VocabularyLossOptions options;
  double scale = 0.7;

  LossProblem(index_t rows, index_t features, index_t vocab, Random& random)
      : weight({vocab, features}),
        x({rows, features}),
        dweight({vocab, features}),
        dx({rows, features}),
        bias({vocab}),
        dbias({vocab}),
        targets({rows}) {
    fill(weight, random), fill(x, random, 0.4), fill(bias, random);
    for (index_t n = 0; n < rows; ++n) targets(n) = random.integer(0, vocab - 1);
    options.label_smoothing = 0.1;
    options.gradient_scale = 0.25;
  }
  VocabularyLoss loss(bool with_gradients) {
    const VocabularyGradients<T> wanted{dx.view(), dweight.view(), dbias.view()};
    return vocabulary_loss<T>({weight.view(), bias.view(), scale}, x, targets.view(),
                              with_gradients ? wanted : VocabularyGradients<T>{}, options);
  }
};

TEST(VocabularyLoss, IsTheSmoothedCrossEntropyOfTheLogits) {
  Random random(test::run_seed());
  for (const index_t rows : {1, 5, 600}) {
    LossProblem<double> problem(rows, 3, 7, random);
    Tensor<double, 2> logits({rows, 7});
    vocabulary_logits<double>({problem.weight.view(), problem.bias.view(), problem.scale}, problem.x, logits);
    double expected = 0, nll = 0;
    for (index_t n = 0; n < rows; ++n) {
      double sum = 0;
      for (index_t v = 0; v < 7; ++v) {
        double logit = problem.bias(v);
        for (index_t j = 0; j < 3; ++j) logit += 0.7 * problem.x(n, j) * problem.weight(v, j);
        EXPECT_NEAR(logits(n, v), logit, 1e-13);
        sum += std::exp(logit);
      }
      const auto log_prob = [&](index_t v) { return logits(n, v) - std::log(sum); };
      nll -= log_prob(problem.targets(n));
      expected -= 0.9 * log_prob(problem.targets(n));
      for (index_t v = 0; v < 7; ++v) expected -= 0.1 / 7 * log_prob(v);
    }
    const VocabularyLoss loss = problem.loss(false);
    EXPECT_NEAR(loss.loss, expected, 1e-12 * std::abs(expected));
    EXPECT_NEAR(loss.nll, nll, 1e-12 * std::abs(nll));
    EXPECT_EQ(loss.num_targets, rows);
    EXPECT_EQ(problem.loss(true).loss, loss.loss) << "the same with gradients";
  }
}

TEST(VocabularyLoss, Gradients) {
  Random random(test::run_seed());
  LossProblem<double> problem(5, 3, 7, random);
  problem.options.ignored = problem.targets(2);
  problem.loss(true);
  const auto loss = [&] { return 0.25 * problem.loss(false).loss; };
  expect_gradient<2>("dx", problem.x, problem.dx, loss);
  expect_gradient<2>("dweight", problem.weight, problem.dweight, loss);
  expect_gradient<1>("dbias", problem.bias, problem.dbias, loss);
}

TEST(VocabularyLoss, SinglePrecisionFollowsDoubleForManyRows) {
  Random random(test::run_seed());
  LossProblem<float> problem(700, 20, 301, random);
  LossProblem<double> wide(700, 20, 301, random);
  wide.weight = widen(problem.weight), wide.x = widen(problem.x), wide.bias = widen(problem.bias);
  wide.targets = problem.targets.clone();
  const VocabularyLoss loss = problem.loss(true), exact = wide.loss(true);
  EXPECT_NEAR(loss.loss / exact.loss, 1, 1e-6);
  EXPECT_NEAR(loss.nll / exact.nll, 1, 1e-6);
  EXPECT_LT(largest_difference(problem.dx, wide.dx), 1e-6);
  EXPECT_LT(largest_difference(problem.dweight, wide.dweight), 1e-4);
  EXPECT_LT(largest_difference(problem.dbias, wide.dbias), 1e-4);
}

TEST(VocabularyLoss, IgnoredTargetsCountNowhere) {
  Random random(test::run_seed());
  LossProblem<float> kept(4, 3, 5, random), padded(6, 3, 5, random);
  for (float& v : std::span(padded.weight.data(), 15)) v = kept.weight.data()[&v - padded.weight.data()];
  std::copy_n(kept.bias.data(), 5, padded.bias.data());
  std::copy_n(kept.x.data(), 12, padded.x.data());
  std::copy_n(kept.targets.data(), 4, padded.targets.data());
  padded.targets(4) = padded.targets(5) = -100;
  padded.options.ignored = -100;
  const VocabularyLoss a = kept.loss(true), b = padded.loss(true);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(b.num_targets, 4);
  EXPECT_EQ(largest_difference(kept.dweight, widen(padded.dweight)), 0);
  for (index_t j = 0; j < 3; ++j) EXPECT_EQ(padded.dx(5, j), 0);
}

TEST(VocabularyLoss, IsFiniteWithMuchSmoothingAndLargeLogits) {
  Random random(test::run_seed());
  LossProblem<float> problem(3, 2, 5, random);
  problem.options.label_smoothing = 0.4;
  problem.targets(0) = 0;
  problem.scale = 1e4;
  EXPECT_TRUE(std::isfinite(problem.loss(true).loss));
  for (index_t n = 0; n < problem.dx.size(); ++n) EXPECT_TRUE(std::isfinite(problem.dx.data()[n]));
}

TEST(VocabularyLoss, NamesTheTargetThatHasNoRow) {
  Random random(test::run_seed());
  LossProblem<float> problem(3, 2, 5, random);
  problem.targets(1) = 5;
  EXPECT_EQ(test::error_of([&] { problem.loss(false); }),
            "vocabulary_loss: a target must be in [0, V), got target=5, position=1, V=5");
  problem.options.label_smoothing = 1;
  EXPECT_EQ(test::error_of([&] { problem.loss(false); }),
            "vocabulary_loss: label_smoothing must be in [0, 1), got label_smoothing=1");
}

TEST(TrainingLayers, AnyNumberOfThreadsGivesTheSameBits) {
  Random random(test::run_seed());
  std::vector<float> first;
  LossProblem<float> problem(300, 40, 501, random);
  LayerNorm<float> norm(40);
  fill(norm.weight, random, 1);
  for (const int num_threads : {1, 2, 5}) {
    Threads threads(num_threads);
    problem.options.threads = &threads;
    std::fill_n(problem.dweight.data(), problem.dweight.size(), 0.0f);
    std::fill_n(problem.dbias.data(), problem.dbias.size(), 0.0f);
    std::vector<float> bits{static_cast<float>(problem.loss(true).loss)};
    LayerNorm<float> gradients(40);
    Tensor<float, 2> dx({300, 40});
    norm.backward(problem.x, problem.dx, dx, &gradients, &threads);
    for (const auto* tensor : {&dx, &problem.dx, &problem.dweight}) {
      bits.insert(bits.end(), tensor->data(), tensor->data() + tensor->size());
    }
    for (const auto* tensor : {&gradients.weight, &gradients.bias, &problem.dbias}) {
      bits.insert(bits.end(), tensor->data(), tensor->data() + tensor->size());
    }
    if (first.empty()) first = bits;
    EXPECT_EQ(bits, first) << num_threads << " threads";
  }
}

}  // namespace
}  // namespace multihead::nn
