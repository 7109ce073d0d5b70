// Per-head statistics on maps whose answer is known.
#include "multihead/lens.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "multihead/tensor.hpp"
#include "support/error_text.hpp"
#include "support/random.hpp"

namespace multihead::lens {
namespace {

/// Causal and uniform: row i spreads evenly over keys 0 .. i.
Tensor<float, 2> causal_uniform(index_t seqlen) {
  Tensor<float, 2> probs({seqlen, seqlen});
  for (index_t i = 0; i < seqlen; ++i) {
    for (index_t j = 0; j <= i; ++j) probs(i, j) = 1.0f / static_cast<float>(i + 1);
  }
  return probs;
}

/// A view lives as long as the test program.
TokenFlags flags(std::initializer_list<bool> values) {
  static std::deque<Tensor<bool, 1>> kept;
  Tensor<bool, 1>& tensor = kept.emplace_back(std::array{static_cast<index_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.data());
  return tensor;
}

TEST(Entropy, OfACausalUniformMapIsTheLogarithmOfTheVisibleKeys) {
  const Tensor<float, 2> probs = causal_uniform(4);
  const double expected[] = {0.0, 0.693147, 1.098612, 1.386294};
  for (index_t i = 0; i < 4; ++i) EXPECT_NEAR(row_entropy(probs.view(), i), expected[i], 1e-6);
  EXPECT_NEAR(*mean_entropy(probs.view()), (0.693147 + 1.098612 + 1.386294) / 4, 1e-6);
}

TEST(Entropy, LeavesRowsWithoutAKeyOutOfTheMean) {
  Tensor<float, 2> probs({3, 2});
  probs(0, 0) = probs(0, 1) = 0.5f;  // rows 1 and 2 see nothing
  EXPECT_NEAR(*mean_entropy(probs.view()), std::log(2.0), 1e-7);
}

TEST(Entropy, OfPaddedQueriesIsLeftOutBySlicing) {
  Tensor<float, 2> probs = causal_uniform(4);
  EXPECT_NEAR(*mean_entropy(probs.view().slice(0, 0, 2)), std::log(2.0) / 2, 1e-7);
}

TEST(Entropy, OfNoRowIsNotANumberButNothing) {
  const Tensor<float, 2> zeros({2, 3}), empty({0, 0});
  EXPECT_FALSE(mean_entropy(zeros));
  EXPECT_FALSE(mean_entropy(empty));
}

TEST(SpecialShare, IsTheMeanMassOnSpecialKeys) {
  Tensor<float, 2> probs({2, 3});
  probs(0, 0) = 0.75f, probs(0, 1) = 0.25f;
  probs(1, 2) = 1.0f;
  EXPECT_DOUBLE_EQ(*special_share(probs.view(), flags({true, false, true})), (0.75 + 1.0) / 2);
  EXPECT_DOUBLE_EQ(*special_share(probs.view(), {}), 0.0);
  const Tensor<float, 2> zeros({2, 3});
  EXPECT_FALSE(special_share(zeros, {}));
}

TEST(SpecialShare, RefusesFlagsOfAnotherLength) {
  const Tensor<float, 2> probs({2, 3});
  EXPECT_EQ(test::error_of([&] {
              special_share(probs.view(), flags({true, false}));
            }),
            "special_share: special_keys must have one flag a key, got special_keys=2, seqlen_kv=3");
}

TEST(StrongestLinks, AreLargestFirstAndPassOverSpecialTokens) {
  Tensor<float, 2> probs({3, 3});
  probs(0, 0) = 0.9f;
  probs(1, 1) = 0.5f, probs(1, 2) = 0.3f;
  probs(2, 0) = 0.7f, probs(2, 1) = 0.2f;
  const auto special = flags({true, false, false});
  const auto links = strongest_links(probs.view(), special, special, 2);
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[0].query, 1);
  EXPECT_EQ(links[0].key, 1);
  EXPECT_EQ(links[0].prob, 0.5f);
  EXPECT_EQ(links[1].query, 1);
  EXPECT_EQ(links[1].key, 2);
}

TEST(StrongestLinks, AgreeWithSortingEverything) {
  test::Random random(test::run_seed());
  for (int round = 0; round < 50; ++round) {
    Tensor<float, 2> probs({7, 11});
    for (index_t i = 0; i < probs.size(); ++i) probs.data()[i] = static_cast<float>(random.integer(0, 9)) / 16.0f;
    std::vector<Link> all;
    for (index_t i = 0; i < 7; ++i) {
      for (index_t j = 0; j < 11; ++j) {
        if (probs(i, j) > 0) all.push_back({i, j, probs(i, j)});
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const Link& a, const Link& b) { return a.prob > b.prob; });
    const auto links = strongest_links(probs.view(), {}, {}, 9);
    ASSERT_EQ(links.size(), std::min<std::size_t>(9, all.size()));
    for (std::size_t n = 0; n < links.size(); ++n) {
      EXPECT_EQ(links[n].query, all[n].query);
      EXPECT_EQ(links[n].key, all[n].key);
    }
  }
}

TEST(StrongestLinks, RefuseWhatDoesNotFit) {
  const Tensor<float, 2> probs({2, 3});
  EXPECT_EQ(test::error_of([&] { strongest_links(probs.view(), flags({true}), {}, 1); }),
            "strongest_links: special_queries must have one flag a query, got special_queries=1, seqlen_q=2");
  EXPECT_EQ(test::error_of([&] { strongest_links(probs.view(), {}, flags({true}), 1); }),
            "strongest_links: special_keys must have one flag a key, got special_keys=1, seqlen_kv=3");
  EXPECT_EQ(test::error_of([&] { strongest_links(probs.view(), {}, {}, -1); }),
            "strongest_links: count must not be negative, got count=-1");
}

TEST(Confidence, IsTheMeanLargestWeightBetweenOrdinaryTokens) {
  Tensor<float, 2> probs({4, 3});
  probs(0, 1) = 1.0f;                      // a special query
  probs(1, 0) = 0.9f, probs(1, 2) = 0.1f;  // key 0 is special
  probs(2, 1) = 0.4f, probs(2, 2) = 0.6f;  // row 3 sees nothing
  EXPECT_NEAR(*confidence(probs.view(), flags({true, false, false, false}), flags({true, false, false})), 0.35, 1e-7);
  EXPECT_NEAR(*confidence(probs.view(), flags({true, false, false, false}), flags({true, false, false}), 1), 0.25,
              1e-7);
  EXPECT_FALSE(confidence(probs.view(), flags({true, true, true, true}), {}));
  EXPECT_FALSE(confidence(probs.view(), {}, flags({true, true, true}))) << "no ordinary key";
  EXPECT_FALSE(confidence(probs.view(), {}, {}, 4)) << "no key so far away";
  EXPECT_EQ(test::error_of([&] { confidence(probs.view(), flags({true}), {}); }),
            "confidence: special_queries must have one flag a query, got special_queries=1, seqlen_q=4");
}

TEST(OffsetProfile, OfAPreviousTokenHeadIsOneAtMinusOne) {
  Tensor<float, 2> probs({5, 5});
  probs(0, 0) = 1.0f;
  for (index_t i = 1; i < 5; ++i) probs(i, i - 1) = 1.0f;
  EXPECT_EQ(offset_profile(probs.view(), 2), (std::vector<double>{0.0, 1.0, 0.2, 0.0, 0.0}));
}

TEST(OffsetProfile, IsZeroWhereNoKeyIsThatFar) {
  Tensor<float, 2> probs({1, 1});
  probs(0, 0) = 1.0f;
  EXPECT_EQ(offset_profile(probs.view(), 2), (std::vector<double>{0, 0, 1, 0, 0}));
}

TEST(OffsetProfile, RefusesCrossAttention) {
  const Tensor<float, 2> probs({2, 3});
  EXPECT_EQ(test::error_of([&] { offset_profile(probs.view(), 2); }),
            "offset_profile: a distance needs as many queries as keys, got seqlen_q=2, seqlen_kv=3");
  EXPECT_EQ(test::error_of([&] { offset_profile(probs.view().slice(1, 0, 2), -1); }),
            "offset_profile: reach must not be negative, got reach=-1");
}

}  // namespace
}  // namespace multihead::lens
