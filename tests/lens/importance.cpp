// Scores of importance, against whole forwards with other gates.
#include "multihead/lens/importance.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "lens/small_model.hpp"
#include "support/error_text.hpp"

namespace multihead::lens {
namespace {

const std::vector<Ablation> kAll = {Ablation::zero, Ablation::mean, Ablation::uniform, Ablation::pattern};

std::vector<Segment> some_segments(index_t count = 11) {
  test::Random random(test::run_seed());
  std::vector<Segment> segments(static_cast<std::size_t>(count));
  for (Segment& segment : segments) {
    const index_t tokens = random.integer(2, 9);
    for (index_t i = 0; i < tokens; ++i) segment.ids.push_back(random.integer(0, 29));
  }
  return segments;
}

std::vector<double> vector_of(const Encoder& encoder, const Segment& segment, const SentencePooling& pooling,
                              std::span<const TensorView<const float, 1>> gates = {}) {
  const TokenBatch batch = pad_batch({&segment.ids, 1});
  const EncoderOutput output = encoder.forward(batch.input(), {.gates = gates});
  const Tensor<float, 2> vector = pool(output.last_hidden, {}, {.pooling = pooling.pooling});
  double squares = 0;
  for (index_t e = 0; e < vector.size(); ++e) squares += double(vector(0, e)) * vector(0, e);
  std::vector<double> unit;
  for (index_t e = 0; e < vector.size(); ++e) unit.push_back(vector(0, e) / std::sqrt(squares));
  return unit;
}

/// Gates of a model of layers of 3 heads; one head has another factor than 1.
struct OneGate {
  std::vector<Tensor<float, 1>> factors;
  std::vector<TensorView<const float, 1>> views;
  OneGate(std::size_t num_layers, std::size_t layer, index_t head, float factor) {
    for (std::size_t n = 0; n < num_layers; ++n) {
      factors.emplace_back(Tensor<float, 1>({3}));
      std::fill_n(factors[n].data(), 3, 1.0f);
    }
    factors[layer](head) = factor;
    views.assign(factors.begin(), factors.end());
  }
};

TEST(Importance, OfZeroIsTheLossOfModelsWithAGateShut) {
  const Encoder encoder = small_encoder(30, 2, 3);
  const std::vector<Segment> segments = some_segments();
  for (const Pooling pooling : {Pooling::mean, Pooling::first, Pooling::max}) {
    const Importance found = head_importance(encoder, segments, {.pooling = {.pooling = pooling}});
    const auto& zero = found.ablation[std::size_t(Ablation::zero)];
    ASSERT_EQ(zero.size(), 6u);
    for (std::size_t n = 0; n < 6; ++n) {
      const OneGate gate(2, n / 3, index_t(n % 3), 0);
      double expected = 0;
      for (const Segment& segment : segments) {
        const auto e = vector_of(encoder, segment, {.pooling = pooling});
        const auto without = vector_of(encoder, segment, {.pooling = pooling}, gate.views);
        expected += (1 - std::inner_product(e.begin(), e.end(), without.begin(), 0.0)) / 11;
      }
      EXPECT_NEAR(zero[n].value, expected, 1e-6);
      ASSERT_TRUE(zero[n].interval);
      EXPECT_LE(zero[n].interval->low, zero[n].value);
      EXPECT_GE(zero[n].interval->high, zero[n].value);
    }
  }
}

// Over many draws E F_hh is the square of how fast the vector moves, whatever the directions.
TEST(Importance, FisherIsTheSpeedOfTheVector) {
  const Encoder encoder = small_encoder(30, 2, 3);
  const std::vector<Segment> segments = some_segments(3);
  for (const Pooling pooling : {Pooling::mean, Pooling::first, Pooling::max}) {
    const index_t draws = 2000;
    const Importance found =
        head_importance(encoder, segments, {.pooling = {.pooling = pooling}, .ablations = {}, .draws = draws});
    for (index_t n = 0; n < 6; ++n) {
      double expected = 0;
      for (const Segment& segment : segments) {
        constexpr float kStep = 1.0f / 256;
        const OneGate more(2, std::size_t(n / 3), n % 3, 1 + kStep), less(2, std::size_t(n / 3), n % 3, 1 - kStep);
        const auto a = vector_of(encoder, segment, {.pooling = pooling}, more.views);
        const auto b = vector_of(encoder, segment, {.pooling = pooling}, less.views);
        for (std::size_t e = 0; e < a.size(); ++e) expected += std::pow((a[e] - b[e]) / (2 * kStep), 2) / 3;
      }
      EXPECT_NEAR(12 * found.fisher(n, n), expected, 0.12 * expected + 1e-6);
      const double sensitivity = found.sensitivity[std::size_t(n)];
      EXPECT_LE(sensitivity * sensitivity, found.fisher(n, n) * (1 + 1e-9));
      EXPECT_GT(sensitivity, 0);
    }
  }
}

TEST(Importance, OfAHeadThatWritesNothingIsZero) {
  Encoder encoder = small_encoder(30, 2, 3);
  auto& w_o = encoder.layers()[1].attention.parameters().w_o;
  for (index_t e = 0; e < w_o.shape(0); ++e) std::fill_n(&w_o(e, 4), 4, 0.0f);  // head 1
  const Importance found = head_importance(encoder, some_segments(), {.ablations = kAll});
  for (const auto& ablation : found.ablation) {
    for (std::size_t n = 0; n < 6; ++n) EXPECT_EQ(ablation[n].value == 0, n == 4) << n;
  }
  for (const auto* scores : {&found.sensitivity, &found.sensitivity_normalised, &found.variance}) {
    for (std::size_t n = 0; n < 6; ++n) EXPECT_EQ((*scores)[n] == 0, n == 4) << n;
  }
  EXPECT_EQ(found.fisher(4, 4), 0);
}

// A head with no queries attends to all alike, one with values that do not vary writes its mean.
TEST(Importance, OfWhatAHeadDoesAnywayIsZero) {
  Encoder encoder = small_encoder(30, 2, 3);
  auto uniform = encoder.layers()[0].attention.head(2), constant = encoder.layers()[1].attention.head(0);
  for (index_t d = 0; d < 4; ++d) {
    uniform.b_q(d) = 0;
    for (index_t e = 0; e < 12; ++e) uniform.w_q(d, e) = constant.w_v(d, e) = 0;
  }
  const Importance found = head_importance(encoder, some_segments(), {.ablations = kAll});
  const auto value = [&](Ablation ablation, std::size_t n) { return found.ablation[std::size_t(ablation)][n].value; };
  EXPECT_LT(value(Ablation::uniform, 2), 1e-11);
  EXPECT_GT(value(Ablation::zero, 2), 1e-6);
  EXPECT_LT(value(Ablation::mean, 3), 1e-11);
  EXPECT_LT(found.variance[3], 1e-9);
  EXPECT_GT(value(Ablation::zero, 3), 1e-6);
  EXPECT_EQ(value(Ablation::zero, 5), value(Ablation::pattern, 5));  // no later layer
  EXPECT_NE(value(Ablation::zero, 2), value(Ablation::pattern, 2));
}

TEST(Importance, OfHeadsInAnotherOrderIsInThatOrder) {
  Encoder encoder = small_encoder(30, 2, 3);
  const std::vector<Segment> segments = some_segments();
  const Importance before = head_importance(encoder, segments, {.ablations = kAll});
  auto a = encoder.layers()[0].attention.head(0), b = encoder.layers()[0].attention.head(2);
  for (index_t d = 0; d < 4; ++d) {
    std::swap(a.b_q(d), b.b_q(d)), std::swap(a.b_k(d), b.b_k(d)), std::swap(a.b_v(d), b.b_v(d));
    for (index_t e = 0; e < 12; ++e) {
      std::swap(a.w_q(d, e), b.w_q(d, e)), std::swap(a.w_k(d, e), b.w_k(d, e));
      std::swap(a.w_v(d, e), b.w_v(d, e)), std::swap(a.w_o(e, d), b.w_o(e, d));
    }
  }
  const Importance after = head_importance(encoder, segments, {.ablations = kAll});
  constexpr std::array<std::size_t, 6> kWas = {2, 1, 0, 3, 4, 5};
  const auto expect_near = [](double x, double y) { EXPECT_NEAR(x, y, 1e-3 * y + 1e-7); };
  for (std::size_t n = 0; n < 6; ++n) {
    for (std::size_t mode = 0; mode < 4; ++mode) {
      expect_near(after.ablation[mode][n].value, before.ablation[mode][kWas[n]].value);
    }
    expect_near(after.sensitivity[n], before.sensitivity[kWas[n]]);
    expect_near(after.variance[n], before.variance[kWas[n]]);
    expect_near(after.fisher(index_t(n), index_t(n)), before.fisher(index_t(kWas[n]), index_t(kWas[n])));
  }
}

TEST(Importance, IsTheSameForAnyThreads) {
  const Encoder encoder = small_encoder(30, 2, 3);
  Threads threads(3);
  double share = 0;
  const Importance one = head_importance(encoder, some_segments(), {.progress = [&](double done) { share = done; }});
  const Importance more = head_importance(encoder, some_segments(), {.threads = &threads});
  EXPECT_NEAR(share, 1, 1e-9);
  EXPECT_EQ(one.sensitivity, more.sensitivity);
  for (std::size_t n = 0; n < 6; ++n) EXPECT_EQ(one.ablation[0][n].value, more.ablation[0][n].value);
}

TEST(Importance, RefusesInWords) {
  const Encoder encoder = small_encoder(30, 2, 3);
  EXPECT_EQ(test::error_of([&] { head_importance(encoder, {}); }),
            "head_importance: there must be a segment, got segments=0");
  EXPECT_EQ(test::error_of([&] { head_importance(encoder, some_segments(), {.draws = 0}); }),
            "head_importance: draws must be above 0, got draws=0");
  EXPECT_EQ(test::error_of([&] { head_importance(encoder, std::vector<Segment>(2)); }),
            "head_importance: a segment must have a token, got segment=0");
}

}  // namespace
}  // namespace multihead::lens
