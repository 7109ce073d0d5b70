// Moments of head outputs, and what a layer loses with some heads under each compensation.
#include "multihead/lens/head_removal.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "lens/small_model.hpp"
#include "multihead/threads.hpp"
#include "support/error_text.hpp"

namespace multihead::lens {
namespace {

using test::error_of;
using test::Random;

constexpr index_t kHeads = 8, kWidth = 8, kFeatures = kHeads * kWidth, kModel = 64, kTokens = 3000;
using Numbers = std::vector<index_t>;

/// Nearly normal numbers of variance 1.
float normal(Random& random) {
  double sum = 0;
  for (int n = 0; n < 12; ++n) sum += random.uniform(0, 1);
  return static_cast<float>(sum - 6);
}

/// 8 heads: 1 is a rotated copy of 0, 3 a copy of 2 with the opposite sign, 6 a mix of 4 and 5; 7 is like no other.
struct MixedLayer {
  nn::MultiHeadAttention<float> layer{{.d_model = kModel, .num_heads = kHeads, .head_dim = kWidth}};
  Tensor<float, 2> z{std::array{kTokens, kFeatures}};
  HeadProducts products{kFeatures};

  explicit MixedLayer(std::uint64_t seed, float mean = 0) {
    Random random(seed);
    std::array<std::array<float, kWidth>, kWidth> mix_a{}, mix_b{};
    for (auto* mix : {&mix_a, &mix_b}) {
      for (auto& row : *mix) {
        for (float& each : row) each = normal(random) / std::sqrt(static_cast<float>(kWidth));
      }
    }
    for (index_t i = 0; i < kTokens; ++i) {
      for (const index_t h : {0, 2, 4, 5, 7}) {
        for (index_t d = 0; d < kWidth; ++d) z(i, h * kWidth + d) = mean + normal(random);
      }
      for (index_t d = 0; d < kWidth; ++d) {
        z(i, kWidth + d) = z(i, (d + 3) % kWidth);  // a permutation rotates
        z(i, 3 * kWidth + d) = -z(i, 2 * kWidth + d);
        float sum = 0;
        for (index_t e = 0; e < kWidth; ++e) {
          const auto [from, to] = std::pair(static_cast<std::size_t>(d), static_cast<std::size_t>(e));
          sum += mix_a[from][to] * z(i, 4 * kWidth + e) + mix_b[from][to] * z(i, 5 * kWidth + e);
        }
        z(i, 6 * kWidth + d) = sum;
      }
    }
    auto& p = layer.parameters();
    for (index_t n = 0; n < p.w_o.size(); ++n) p.w_o.data()[n] = normal(random);
    for (index_t n = 0; n < p.b_o.size(); ++n) p.b_o.data()[n] = normal(random);
    products.add(z);
  }

  /// [kTokens, kModel] what the layer gives from these columns of z.
  Tensor<double, 2> output(const Numbers& heads, const Tensor<float, 2>& w_o, const Tensor<float, 1>& b_o) const {
    Tensor<double, 2> y({kTokens, kModel});
    for (index_t i = 0; i < kTokens; ++i) {
      for (index_t e = 0; e < kModel; ++e) {
        double sum = b_o(e);
        for (std::size_t n = 0; n < heads.size(); ++n) {
          for (index_t d = 0; d < kWidth; ++d) {
            sum += static_cast<double>(z(i, heads[n] * kWidth + d)) * w_o(e, static_cast<index_t>(n) * kWidth + d);
          }
        }
        y(i, e) = sum;
      }
    }
    return y;
  }

  /// Mean over tokens of ||y - y'||^2, by running the layer that weights() leaves.
  double measured(const Numbers& removed, Compensation compensation) const {
    Numbers all, kept;
    for (index_t h = 0; h < kHeads; ++h) {
      all.push_back(h);
      if (std::ranges::find(removed, h) == removed.end()) kept.push_back(h);
    }
    const OutputWeights left = HeadRemoval(layer, products).weights(removed, compensation);
    EXPECT_EQ(left.w_o.shape(1), static_cast<index_t>(kept.size()) * kWidth);
    const auto y = output(all, layer.parameters().w_o, layer.parameters().b_o);
    const auto rest = output(kept, left.w_o, left.b_o);
    double sum = 0;
    for (index_t n = 0; n < y.size(); ++n) sum += std::pow(y.data()[n] - rest.data()[n], 2);
    return sum / kTokens;
  }

  double share(const Numbers& removed, Compensation compensation) const {
    const HeadRemoval removal(layer, products);
    return removal.error(removed, compensation) / removal.variance();
  }
};

constexpr std::array kAll = {Compensation::none, Compensation::mean, Compensation::scale, Compensation::fold};

TEST(HeadProducts, AreThoseOfPlainLoopsForAnyBatchesAndThreads) {
  Random random(test::run_seed());
  const index_t rows = 37, features = 12;
  Tensor<float, 2> z({rows, features});
  for (index_t n = 0; n < z.size(); ++n) z.data()[n] = static_cast<float>(random.uniform(-1, 3));
  HeadProducts once(features), parts(features), threaded(features);
  Threads threads(3);
  once.add(z);
  threaded.add(z, &threads);
  parts.add(z.view().slice(0, 0, 20));
  parts.add(z.view().slice(0, 20, 20));
  parts.add(z.view().slice(0, 20, rows));
  EXPECT_EQ(parts.num_tokens(), rows);
  for (index_t f = 0; f < features; ++f) {
    double sum = 0;
    for (index_t i = 0; i < rows; ++i) sum += z(i, f);
    EXPECT_NEAR(once.sums()(f), sum, 1e-12);
    EXPECT_NEAR(parts.sums()(f), sum, 1e-12);
    for (index_t g = 0; g < features; ++g) {
      double product = 0;
      for (index_t i = 0; i < rows; ++i) product += static_cast<double>(z(i, f)) * z(i, g);
      EXPECT_NEAR(once.products()(f, g), product, 1e-11);
      EXPECT_NEAR(parts.products()(f, g), product, 1e-11);
      EXPECT_EQ(threaded.products()(f, g), once.products()(f, g));
    }
  }
  EXPECT_EQ(error_of([&] { once.add(z.view().slice(1, 0, 5)); }),
            "HeadProducts::add: z must have the features of the layer, got features=5, expected=12");
}

TEST(HeadProducts, OfAModelLeaveOutWhatFillsUpShorterSegments) {
  const Encoder encoder = small_encoder(30);
  std::vector<Segment> segments(2);
  for (index_t n = 0; n < 2; ++n) {
    Segment& segment = segments[static_cast<std::size_t>(n)];
    for (index_t t = 0; t < 5 + 4 * n; ++t) segment.ids.push_back(5 + (7 * n + 3 * t) % 25);
    segment.tokens.resize(segment.ids.size());
    segment.special.resize(segment.ids.size());
    segment.word_ids.resize(segment.ids.size());
  }
  const auto products_of = [&](std::span<const Segment> some) {
    std::vector<HeadProducts> products = make_head_products(encoder);
    const Observer add = [&](const ObservedBatch& batch) { add_head_outputs(products, batch); };
    observe(encoder, some, {&add, 1}, {.capture = {.head_outputs = true}});
    return products;
  };
  const auto both = products_of(segments), first = products_of({segments.data(), 1}),
             second = products_of({segments.data() + 1, 1});
  ASSERT_EQ(both.size(), encoder.layers().size());
  for (std::size_t layer = 0; layer < both.size(); ++layer) {
    EXPECT_EQ(both[layer].num_tokens(), 14);
    for (index_t f = 0; f < both[layer].features(); ++f) {
      EXPECT_NEAR(both[layer].sums()(f), first[layer].sums()(f) + second[layer].sums()(f), 1e-5);
      EXPECT_NE(both[layer].products()(f, f), 0);
    }
  }
  const Observer wrong = [&](const ObservedBatch& batch) {
    auto products = make_head_products(encoder);
    add_head_outputs(products, batch);
  };
  EXPECT_EQ(error_of([&] {
              observe(encoder, segments, {&wrong, 1}, {.capture = {}});
            }),
            "add_head_outputs: head_outputs of all layers must be captured, got layers=0, expected=2");
}

// The error that is foretold is that of the layer which is left.
TEST(HeadRemoval, ErrorIsThatOfTheLayerThatIsLeft) {
  const MixedLayer mixed(test::run_seed(), 0.5f);
  const HeadRemoval removal(mixed.layer, mixed.products);
  for (const Numbers& removed : {Numbers{7}, Numbers{6, 1}, Numbers{0, 2, 4, 7}}) {
    double before = 2 * removal.error(removed, Compensation::none);
    for (const Compensation compensation : {Compensation::none, Compensation::mean, Compensation::fold}) {
      const double expected = removal.error(removed, compensation), measured = mixed.measured(removed, compensation);
      EXPECT_NEAR(measured, expected, 2e-3 * expected + 1e-3) << static_cast<int>(compensation);
      EXPECT_LE(expected, before * (1 + 1e-9));
      before = expected;
    }
    const double scaled = removal.error(removed, Compensation::scale);
    EXPECT_NEAR(mixed.measured(removed, Compensation::scale), scaled, 1e-4 * scaled);
    EXPECT_LE(scaled, removal.error(removed, Compensation::none));
  }
}

// Copies and mixes are made up for; what no other head has is lost, whatever is done.
TEST(HeadRemoval, FoldKeepsWhatOtherHeadsHaveToo) {
  const MixedLayer mixed(test::run_seed());
  const Numbers copies{1, 3}, mix{6}, unique{7};
  EXPECT_GT(mixed.share(copies, Compensation::none), 0.15);
  EXPECT_LT(mixed.share(copies, Compensation::fold), 1e-3);
  EXPECT_GT(mixed.share(mix, Compensation::none), 0.05);
  EXPECT_GT(mixed.share(mix, Compensation::scale), 0.8 * mixed.share(mix, Compensation::none));
  EXPECT_LT(mixed.share(mix, Compensation::fold), 1e-3);
  const double lost = mixed.share(unique, Compensation::none);
  EXPECT_GT(lost, 0.05);
  EXPECT_GT(mixed.share(unique, Compensation::scale), 0.9 * lost);
  EXPECT_GT(mixed.share(unique, Compensation::fold), 0.9 * lost);
  EXPECT_GT(mixed.share({0, 1}, Compensation::fold), 0.9 * mixed.share({0}, Compensation::none));  // twins gone
}

// A twin that writes the same way too is made up for by a factor.
TEST(HeadRemoval, ScaleMakesUpForATwin) {
  MixedLayer mixed(test::run_seed());
  auto& w_o = mixed.layer.parameters().w_o;
  for (index_t e = 0; e < kModel; ++e) {
    for (index_t d = 0; d < kWidth; ++d) w_o(e, 3 * kWidth + d) = -2 * w_o(e, 2 * kWidth + d);
  }
  EXPECT_LT(mixed.share({3}, Compensation::scale), 1e-6);
  const OutputWeights left = HeadRemoval(mixed.layer, mixed.products).weights(Numbers{3}, Compensation::scale);
  EXPECT_NEAR(left.w_o(5, 2 * kWidth + 1), 3 * w_o(5, 2 * kWidth + 1), 2e-2 * std::abs(w_o(5, 2 * kWidth + 1)) + 1e-3);
}

TEST(HeadRemoval, AConstantHeadIsABias) {
  MixedLayer mixed(test::run_seed());
  for (index_t i = 0; i < kTokens; ++i) {
    for (index_t d = 0; d < kWidth; ++d) mixed.z(i, 7 * kWidth + d) = 2.5f;
  }
  mixed.products = HeadProducts(kFeatures);
  mixed.products.add(mixed.z);
  EXPECT_GT(mixed.share({7}, Compensation::none), 0.1);
  EXPECT_LT(mixed.share({7}, Compensation::mean), 1e-9);
  EXPECT_LT(mixed.measured({7}, Compensation::mean), 1e-6);
}

TEST(HeadRemoval, NothingAndEverythingMayGo) {
  const MixedLayer mixed(test::run_seed(), 0.5f);
  const HeadRemoval removal(mixed.layer, mixed.products);
  const Numbers all{7, 6, 5, 4, 3, 2, 1, 0};
  for (const Compensation compensation : kAll) {
    EXPECT_EQ(removal.error({}, compensation), 0);
    const OutputWeights same = removal.weights({}, compensation);
    for (index_t n = 0; n < same.w_o.size(); ++n) {
      ASSERT_EQ(same.w_o.data()[n], mixed.layer.parameters().w_o.data()[n]);
    }
    const OutputWeights none = removal.weights(all, compensation);
    EXPECT_EQ(none.w_o.size(), 0);
    EXPECT_EQ(none.b_o.size(), kModel);
  }
  EXPECT_NEAR(removal.error(all, Compensation::mean), removal.variance(), 1e-9 * removal.variance());
  EXPECT_NEAR(removal.error(all, Compensation::fold), removal.variance(), 1e-2 * removal.variance());
}

TEST(HeadRemoval, RefusesInWords) {
  const MixedLayer mixed(1);
  const HeadRemoval removal(mixed.layer, mixed.products);
  for (const Numbers& removed : {Numbers{0, 8}, Numbers{-1, 2}, Numbers{3, 3}}) {
    const std::string text = "[" + std::to_string(removed[0]) + ", " + std::to_string(removed[1]) + "]";
    EXPECT_EQ(error_of([&] { removal.error(removed, Compensation::none); }),
              "HeadRemoval: removed heads must be distinct heads of the layer, got removed=" + text + ", num_heads=8");
  }
  EXPECT_EQ(error_of([&] { HeadRemoval(mixed.layer, HeadProducts(8)); }),
            "HeadRemoval: products must be those of the layer's heads, got features=8, expected=64");
  EXPECT_EQ(error_of([&] { HeadRemoval(mixed.layer, HeadProducts(kFeatures)); }),
            "HeadRemoval: products must hold a token, got num_tokens=0");
  EXPECT_EQ(error_of([&] { HeadRemoval(mixed.layer, mixed.products, 0); }),
            "HeadRemoval: ridge must be above 0, got ridge=0");
  const nn::MultiHeadAttention<float> without(
      {.d_model = kModel, .num_heads = kHeads, .head_dim = kWidth, .b_o = false});
  EXPECT_EQ(error_of([&] { HeadRemoval(without, mixed.products).error(Numbers{1}, Compensation::mean); }),
            "HeadRemoval: the layer must have b_o for the mean; take fold, which can do without");
}

}  // namespace
}  // namespace multihead::lens
