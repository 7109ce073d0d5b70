// Heads that write alike, layers that hold fewer heads than they count, heads that others can replace.
#include "multihead/lens/write_similarity.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "lens/planted_heads.hpp"
#include "multihead/lens/head_diversity.hpp"
#include "multihead/lens/replaceability.hpp"
#include "multihead/threads.hpp"
#include "support/error_text.hpp"

namespace multihead::lens {
namespace {

using test::error_of;
using test::Random;
constexpr index_t kWidth = PlantedHeads::kWidth, kModel = PlantedHeads::kModel;

/// O_h [tokens, E], in plain loops.
Tensor<double, 2> write_of(const PlantedHeads& heads, index_t head, bool centred) {
  const auto& w_o = heads.layer.parameters().w_o;
  Tensor<double, 2> write({heads.num_tokens, kModel});
  for (index_t e = 0; e < kModel; ++e) {
    double mean = 0;
    for (index_t i = 0; i < heads.num_tokens; ++i) {
      for (index_t d = 0; d < kWidth; ++d) {
        write(i, e) += static_cast<double>(heads.z(i, head * kWidth + d)) * w_o(e, head * kWidth + d);
      }
      mean += write(i, e) / static_cast<double>(heads.num_tokens);
    }
    for (index_t i = 0; centred && i < heads.num_tokens; ++i) write(i, e) -= mean;
  }
  return write;
}

/// ||x^T y||_F^2
double hsic(const Tensor<double, 2>& x, const Tensor<double, 2>& y) {
  double sum = 0;
  for (index_t e = 0; e < kModel; ++e) {
    for (index_t f = 0; f < kModel; ++f) {
      double product = 0;
      for (index_t i = 0; i < x.shape(0); ++i) product += x(i, e) * y(i, f);
      sum += product * product;
    }
  }
  return sum;
}

double inner(const Tensor<double, 2>& x, const Tensor<double, 2>& y) {
  double sum = 0;
  for (index_t n = 0; n < x.size(); ++n) sum += x.data()[n] * y.data()[n];
  return sum;
}

WriteSimilarity similarity_of(const PlantedHeads& heads) {
  const HeadProducts products = heads.products();
  return write_similarity({heads.layer, products});
}

// Also across two layers, and with outputs far from 0.
TEST(WriteSimilarity, IsThatOfPlainLoops) {
  Random random(test::run_seed());
  PlantedHeads a(3, 50, random), b(2, 50, random);
  for (index_t n = 0; n < a.z.size(); ++n) a.z.data()[n] += 2;
  const HeadProducts of_a = a.products(), of_b = b.products();
  Tensor<double, 2> cross({3 * kWidth, 2 * kWidth});
  for (index_t i = 0; i < 50; ++i) {
    for (index_t f = 0; f < 3 * kWidth; ++f) {
      for (index_t g = 0; g < 2 * kWidth; ++g) cross(f, g) += static_cast<double>(a.z(i, f)) * b.z(i, g);
    }
  }
  Threads threads(3);
  const WriteSimilarity within = write_similarity({a.layer, of_a});
  const WriteSimilarity across = write_similarity({a.layer, of_a}, {b.layer, of_b}, cross);
  const WriteSimilarity threaded = write_similarity({a.layer, of_a}, {b.layer, of_b}, cross, &threads);
  const auto expect = [](const WriteSimilarity& found, const PlantedHeads& x, const PlantedHeads& y) {
    for (index_t i = 0; i < x.num_heads; ++i) {
      for (index_t j = 0; j < y.num_heads; ++j) {
        const auto centred_i = write_of(x, i, true), centred_j = write_of(y, j, true);
        const auto plain_i = write_of(x, i, false), plain_j = write_of(y, j, false);
        const double norms = std::sqrt(hsic(centred_i, centred_i) * hsic(centred_j, centred_j));
        EXPECT_NEAR(found.cka(i, j), hsic(centred_i, centred_j) / norms, 1e-9);
        EXPECT_NEAR(found.cosine(i, j),
                    inner(plain_i, plain_j) / std::sqrt(inner(plain_i, plain_i) * inner(plain_j, plain_j)), 1e-9);
      }
    }
  };
  expect(within, a, a);
  expect(across, a, b);
  for (index_t n = 0; n < across.cka.size(); ++n) {
    EXPECT_EQ(across.cka.data()[n], threaded.cka.data()[n]);
    EXPECT_EQ(across.cosine.data()[n], threaded.cosine.data()[n]);
  }
}

TEST(WriteSimilarity, FindsCopiesInAnyDisguise) {
  Random random(test::run_seed());
  PlantedHeads heads(8, 3000, random);
  heads.copy(0, 1);
  heads.copy(0, 2), heads.rotate(2, 0.7);
  heads.copy(0, 3, 5);
  heads.copy(0, 4, -1);
  heads.copy(0, 5);  // what changes in another way below
  for (index_t i = 0; i < heads.num_tokens; ++i) {
    for (index_t d = 0; d < kWidth; ++d) heads.output(i, 6, d) = 3;  // never varies
  }
  const double noise = 0.5;
  for (index_t i = 0; i < heads.num_tokens; ++i) {
    for (index_t d = 0; d < kWidth; ++d) heads.output(i, 5, d) += static_cast<float>(noise) * nearly_normal(random);
  }
  const WriteSimilarity found = similarity_of(heads);
  for (const index_t copy : {1, 2, 3, 4}) {
    EXPECT_NEAR(found.cka(0, copy), 1, 1e-6) << copy;
    EXPECT_NEAR(found.cosine(0, copy), copy == 4 ? -1 : 1, 1e-6) << copy;
  }
  EXPECT_NEAR(found.cka(0, 5), 1 / (1 + noise * noise), 0.01);
  EXPECT_LT(found.cka(0, 7), 0.01);
  EXPECT_NEAR(found.cosine(0, 7), 0, 0.1);
  EXPECT_EQ(found.cka(0, 6), 0);
  EXPECT_EQ(found.cka(6, 6), 1);
}

TEST(WriteSimilarity, RefusesInWords) {
  Random random(1);
  const PlantedHeads heads(2, 5, random);
  const HeadProducts products = heads.products(), none(2 * kWidth), other(kWidth), fewer = heads.products(0, 3);
  const Tensor<double, 2> cross({16, 15});
  EXPECT_EQ(error_of([&] {
              write_similarity({heads.layer, other});
            }),
            "write_similarity: products must be those of the layer's heads, got features=8, expected=16");
  EXPECT_EQ(error_of([&] {
              write_similarity({heads.layer, none});
            }),
            "write_similarity: products must hold a token, got num_tokens=0");
  EXPECT_EQ(error_of([&] {
              write_similarity({heads.layer, products}, {heads.layer, fewer}, cross);
            }),
            "write_similarity: both layers must have seen the same tokens, got num_tokens=5, others=3");
  EXPECT_EQ(error_of([&] {
              write_similarity({heads.layer, products}, {heads.layer, products}, cross);
            }),
            "write_similarity: cross must be [Fa, Fb], got cross=[16, 15], features=16, others=16");
}

TEST(EffectiveHeads, CountsDifferentHeads) {
  Random random(test::run_seed());
  PlantedHeads heads(8, 4000, random);
  const auto count = [&] {
    const WriteSimilarity found = similarity_of(heads);
    return effective_heads(found.cka);
  };
  EXPECT_NEAR(count(), 8, 0.01);
  heads.copy(0, 4), heads.copy(1, 5), heads.copy(2, 6), heads.copy(3, 7);
  EXPECT_NEAR(count(), 4, 0.01);
  for (index_t h = 1; h < 8; ++h) heads.copy(0, h);
  EXPECT_NEAR(count(), 1, 1e-4);
  const Tensor<double, 2> none({0, 0}), narrow({2, 3});
  EXPECT_EQ(effective_heads(none), 0);
  EXPECT_EQ(error_of([&] { effective_heads(narrow); }), "effective_heads: cka must be square, got cka=[2, 3]");
}

// Heads with correlation r: the mean keeps what is common to all. R2 = (1 + (H - 1) r) / H.
TEST(AveragingLoss, IsWhatIsNotInTheMean) {
  Random random(test::run_seed());
  for (const double r : {0.0, 0.5, 0.9, 1.0}) {
    PlantedHeads heads(8, 4000, random);
    for (index_t i = 0; i < heads.num_tokens; ++i) {
      for (index_t d = 0; d < kWidth; ++d) {
        const float common = nearly_normal(random);
        for (index_t h = 0; h < 8; ++h) {
          heads.output(i, h, d) = static_cast<float>(std::sqrt(r) * common + std::sqrt(1 - r) * heads.output(i, h, d));
        }
      }
    }
    EXPECT_NEAR(averaging_loss(heads.products(), 8).value(), 1 - (1 + 7 * r) / 8, 0.01) << r;
  }
  PlantedHeads constant(2, 10, random);
  for (index_t n = 0; n < constant.z.size(); ++n) constant.z.data()[n] = 7;
  EXPECT_EQ(averaging_loss(constant.products(), 2), std::nullopt);
  EXPECT_EQ(averaging_loss(HeadProducts(0), 0), std::nullopt);
  EXPECT_EQ(error_of([&] { averaging_loss(HeadProducts(10), 4); }),
            "averaging_loss: the features must be those of num_heads heads, got features=10, num_heads=4");
}

/// 0, 1 twins; 2 a mix of 3 and 4; 5 like no other, 6 noise upon 5, 7 constant.
PlantedHeads mixed_heads(Random& random) {
  PlantedHeads heads(8, 4000, random);
  heads.copy(0, 1), heads.rotate(1, 0.4);
  float mix[2][kWidth][kWidth];
  for (auto& half : mix) {
    for (auto& row : half) {
      for (float& each : row) each = nearly_normal(random);
    }
  }
  for (index_t i = 0; i < heads.num_tokens; ++i) {
    for (index_t d = 0; d < kWidth; ++d) {
      float sum = 1;  // the bias makes up for it
      for (index_t e = 0; e < kWidth; ++e) {
        sum += mix[0][d][e] * heads.output(i, 3, e) + mix[1][d][e] * heads.output(i, 4, e);
      }
      heads.output(i, 2, d) = sum;
      heads.output(i, 6, d) = heads.output(i, 5, d) + heads.output(i, 6, d) / 2;
      heads.output(i, 7, d) = 0.25f;
    }
  }
  return heads;
}

TEST(Replaceability, SeesCopiesMixesAndNoise) {
  Random random(test::run_seed());
  const PlantedHeads heads = mixed_heads(random);
  const Replaceability found = replaceability(heads.layer, heads.products(0, 2000), heads.products(2000, 4000));
  for (const std::size_t h : {0, 1, 2}) EXPECT_NEAR(found.r2[h], 1, 1e-3) << h;
  EXPECT_NEAR(found.r2[5], 1 - 0.25 / 1.25, 0.02);
  EXPECT_NEAR(found.r2[6], 1 / 1.25, 0.02);
  EXPECT_EQ(found.r2[7], 1);
  const WriteSimilarity alike = similarity_of(heads);
  EXPECT_LT(alike.cka(2, 3), 0.6);
  EXPECT_LT(alike.cka(2, 4), 0.6);

  // Nothing is learned from heads that have nothing to do with each other, and less than nothing on other text.
  const PlantedHeads others(8, 4000, random);
  for (const double r2 : replaceability(others.layer, others.products(0, 2000), others.products(2000, 4000)).r2) {
    EXPECT_LT(r2, 0);
    EXPECT_GT(r2, -0.1);
  }
}

TEST(Replaceability, OneOfTwoTwinsGoes) {
  Random random(test::run_seed());
  const PlantedHeads heads = mixed_heads(random);
  const HeadProducts fit = heads.products(0, 2000), held_out = heads.products(2000, 4000);
  const Replaceability found = replaceability(heads.layer, fit, held_out);
  ASSERT_EQ(found.order.size(), 8u);
  std::vector<index_t> free;
  for (const RemovalStep& step : found.order) {
    if (step.r2 >= kReplaceable) free.push_back(step.head);
  }
  // A twin, a head of the mix, and the one that is constant.
  std::ranges::sort(free);
  ASSERT_EQ(free.size(), 3u);
  EXPECT_LT(free[0], 2);
  EXPECT_GE(free[1], 2);
  EXPECT_LT(free[1], 5);
  EXPECT_EQ(free[2], 7);
  EXPECT_NEAR(found.order.back().r2, 0, 0.01);
}

// Each step is a new fit to the heads that are left, although only one inverse is made.
TEST(Replaceability, OrderIsThatOfNewFits) {
  Random random(test::run_seed());
  const PlantedHeads heads = mixed_heads(random);
  const Replaceability found = replaceability(heads.layer, heads.products(0, 2000), heads.products(2000, 4000));
  std::vector<index_t> gone;
  for (std::size_t step = 0; step + 1 < found.order.size(); ++step) {
    std::vector<index_t> left;
    for (index_t h = 0; h < 8; ++h) {
      if (std::ranges::find(gone, h) == gone.end()) left.push_back(h);
    }
    PlantedHeads rest(static_cast<index_t>(left.size()), 4000, random);
    for (index_t n = 0; n < rest.num_heads; ++n) {
      const index_t h = left[static_cast<std::size_t>(n)];
      for (index_t d = 0; d < kWidth; ++d) {
        for (index_t i = 0; i < 4000; ++i) rest.output(i, n, d) = heads.z(i, h * kWidth + d);
        for (index_t e = 0; e < kModel; ++e) rest.weight(e, n, d) = heads.layer.parameters().w_o(e, h * kWidth + d);
      }
    }
    const Replaceability again = replaceability(rest.layer, rest.products(0, 2000), rest.products(2000, 4000));
    EXPECT_NEAR(found.order[step].r2, std::ranges::max(again.r2), 1e-3) << step;
    gone.push_back(found.order[step].head);
  }
}

TEST(Replaceability, RefusesInWords) {
  Random random(1);
  const PlantedHeads heads(2, 5, random);
  const HeadProducts products = heads.products();
  EXPECT_EQ(error_of([&] { replaceability(heads.layer, products, HeadProducts(8)); }),
            "replaceability: products must be those of the layer's heads, got features=8, expected=16");
  EXPECT_EQ(error_of([&] { replaceability(heads.layer, products, HeadProducts(16)); }),
            "replaceability: both products must hold a token, got fit=5, held_out=0");
}

}  // namespace
}  // namespace multihead::lens
