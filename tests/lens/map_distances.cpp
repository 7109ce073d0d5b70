// Heads that look alike, against the definition in plain loops.
#include "multihead/lens/map_distances.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lens/fast_log2.hpp"
#include "lens/planted_heads.hpp"
#include "lens/synthetic_heads.hpp"
#include "multihead/lens/write_similarity.hpp"
#include "support/error_text.hpp"

namespace multihead::lens {
namespace {

using test::error_of;
using test::Random;

/// Rows that sum to 1, some sharp, some flat, with zeros where a causal head sees nothing.
Tensor<float, 2> random_map(index_t rows, index_t keys, bool causal, Random& random) {
  Tensor<float, 2> map({rows, keys});
  for (index_t i = 0; i < rows; ++i) {
    const double spread = random.uniform(0.1, 12);
    double total = 0;
    std::vector<double> row(static_cast<std::size_t>(causal ? i + 1 : keys));
    for (double& each : row) total += each = std::exp(spread * random.uniform(-1, 1));
    for (std::size_t j = 0; j < row.size(); ++j) map(i, static_cast<index_t>(j)) = static_cast<float>(row[j] / total);
  }
  return map;
}

/// JS of two rows in nats.
double divergence(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const double m = (a[k] + b[k]) / 2;
    if (a[k] > 0) sum += a[k] * std::log(a[k] / m) / 2;
    if (b[k] > 0) sum += b[k] * std::log(b[k] / m) / 2;
  }
  return sum;
}

std::vector<double> row_of(HeadMap map, index_t i) {
  std::vector<double> row;
  for (index_t j = 0; j < map.shape(1); ++j) row.push_back(map(i, j));
  return row;
}

TEST(FastLog2, IsExactToFiveInTenMillion) {
  EXPECT_EQ(0 * fast_log2(0), 0);
  EXPECT_EQ(fast_log2(1), 0);
  double worst = 0;
  const auto check = [&](float x) {
    const double exact = std::log2(static_cast<double>(x));
    if (exact != 0) worst = std::max(worst, std::abs(fast_log2(x) - exact) / std::abs(exact));
  };
  for (double x = 1.2e-38; x < 3e38; x *= 1.0003) check(static_cast<float>(x));
  for (double x = 0.5; x < 2; x += 3e-6) check(static_cast<float>(x));
  EXPECT_LT(worst, 5e-7);
}

TEST(MapDistances, AreThoseOfPlainLoops) {
  Random random(test::run_seed());
  constexpr index_t kHeads = 4;
  for (const bool causal : {false, true}) {
    MapDistances distances(kHeads), threaded(kHeads), halves(kHeads);
    Threads threads(3);
    double expected[kHeads][kHeads] = {};
    index_t rows = 0;
    for (const index_t keys : {17, 5, 1, 32}) {
      std::vector<Tensor<float, 2>> maps;
      for (index_t h = 0; h < kHeads; ++h) maps.push_back(random_map(keys, keys, causal, random));
      const std::vector<HeadMap> views(maps.begin(), maps.end());
      distances.add(views);
      threaded.add(views, {}, &threads);
      MapDistances one(kHeads);
      one.add(views);
      halves.add(one);
      for (index_t q = 0; q < keys; ++q, ++rows) {
        for (std::size_t i = 0; i < kHeads; ++i) {
          for (std::size_t j = 0; j < kHeads; ++j) {
            expected[i][j] += divergence(row_of(views[i], q), row_of(views[j], q)) / std::log(2);
          }
        }
      }
    }
    EXPECT_EQ(distances.num_queries(), rows);
    const Tensor<double, 2> found = distances.mean(), again = threaded.mean(), sum = halves.mean();
    for (index_t n = 0; n < kHeads * kHeads; ++n) {
      EXPECT_NEAR(found.data()[n], expected[n / kHeads][n % kHeads] / static_cast<double>(rows), 2e-6);
      EXPECT_EQ(found.data()[n], again.data()[n]);
      EXPECT_NEAR(found.data()[n], sum.data()[n], 1e-12);
    }
  }
}

// The distance of their published script: rows a <- 0.999 a + 0.001 / n, JS in nats, summed over the rows of all texts.
TEST(MapDistances, GiveThoseOfClarkEtAl) {
  Random random(test::run_seed());
  const index_t keys = 24;
  MapDistances distances(2);
  double expected = 0;
  for (int text = 0; text < 3; ++text) {
    std::vector<Tensor<float, 2>> maps;
    for (int h = 0; h < 2; ++h) maps.push_back(random_map(keys, keys, false, random));
    for (index_t q = 0; q < keys; ++q) {
      std::vector<double> a = row_of(maps[0], q), b = row_of(maps[1], q);
      for (auto* row : {&a, &b}) {
        for (double& each : *row) each = 0.999 * each + 0.001 / static_cast<double>(keys);
      }
      expected += divergence(a, b);
    }
    for (Tensor<float, 2>& map : maps) {
      for (index_t n = 0; n < map.size(); ++n) map.data()[n] = 0.999f * map.data()[n] + 0.001f / keys;
    }
    const std::vector<HeadMap> views(maps.begin(), maps.end());
    distances.add(views);
  }
  const double found = distances.mean()(0, 1) * std::log(2) * static_cast<double>(distances.num_queries());
  EXPECT_NEAR(found, expected, 1e-5 * expected);
}

TEST(MapDistances, AreNoneForCopiesAndOneBitWithoutACommonKey) {
  Random random(test::run_seed());
  const Tensor<float, 2> map = random_map(40, 40, true, random);
  Tensor<float, 2> left({2, 20}), right({2, 20});
  left(0, 3) = left(1, 0) = right(0, 19) = right(1, 1) = 1;
  MapDistances same(2), apart(2);
  const HeadMap copies[] = {map, map}, others[] = {left, right};
  same.add(copies);
  apart.add(others);
  EXPECT_EQ(same.mean()(0, 1), 0);
  EXPECT_EQ(apart.mean()(1, 0), 1);
  EXPECT_EQ(MapDistances(2).mean()(0, 1), 0);
}

TEST(MapDistances, CountTheQueriesThatAreAskedFor) {
  Random random(test::run_seed());
  const Tensor<float, 2> a = random_map(9, 12, false, random), b = random_map(9, 12, false, random);
  const HeadMap maps[] = {a, b};
  MapDistances distances(2);
  const index_t queries[] = {7, 2};
  distances.add(maps, queries);
  EXPECT_EQ(distances.num_queries(), 2);
  const double expected = divergence(row_of(a, 2), row_of(b, 2)) + divergence(row_of(a, 7), row_of(b, 7));
  EXPECT_NEAR(distances.mean()(0, 1), expected / 2 / std::log(2), 2e-6);
  const index_t wrong[] = {9};
  EXPECT_EQ(error_of([&] { distances.add(maps, wrong); }),
            "MapDistances::add: queries must be rows of the maps, got query=9, seqlen_q=9");
  EXPECT_EQ(error_of([&] {
              distances.add({maps, 1});
            }),
            "MapDistances::add: there must be one map a head, got maps=1, num_heads=2");
  const HeadMap shapes[] = {a, b.view().slice(0, 0, 8)};
  EXPECT_EQ(error_of([&] { distances.add(shapes); }),
            "MapDistances::add: maps must have one shape, got map=[8, 12], first=[9, 12]");
  EXPECT_EQ(error_of([&] { distances.add(MapDistances(3)); }),
            "MapDistances::add: both must have the same heads, got num_heads=3, expected=2");
}

// Two heads that look at the same keys and write what has nothing to do with each other.
TEST(MapDistances, SayNothingOfWhatIsWritten) {
  Random random(test::run_seed());
  constexpr index_t kTokens = 60, kTexts = 40, kWidth = PlantedHeads::kWidth;
  PlantedHeads heads(2, kTokens * kTexts, random);
  MapDistances distances(2);
  for (index_t text = 0; text < kTexts; ++text) {
    const Tensor<float, 2> map = random_map(kTokens, kTokens, false, random);
    const HeadMap maps[] = {map, map};
    distances.add(maps);
    for (index_t h = 0; h < 2; ++h) {
      Tensor<float, 2> values({kTokens, kWidth});
      for (index_t n = 0; n < values.size(); ++n) values.data()[n] = nearly_normal(random);
      for (index_t i = 0; i < kTokens; ++i) {
        for (index_t d = 0; d < kWidth; ++d) {
          float sum = 0;
          for (index_t j = 0; j < kTokens; ++j) sum += map(i, j) * values(j, d);
          heads.output(text * kTokens + i, h, d) = sum;
        }
      }
    }
  }
  const HeadProducts products = heads.products();
  EXPECT_EQ(distances.mean()(0, 1), 0);
  EXPECT_LT(write_similarity({heads.layer, products}).cka(0, 1), 0.05);
}

}  // namespace
}  // namespace multihead::lens
