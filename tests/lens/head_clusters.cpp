// Groups and the map in the plane, on distances whose answer is known.
#include "multihead/lens/head_clusters.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/error_text.hpp"
#include "support/random.hpp"

namespace multihead::lens {
namespace {

using test::error_of;
using test::Random;
using Groups = std::vector<index_t>;

/// |x_i - x_j| of points on a line.
Tensor<double, 2> distances_of(const std::vector<double>& points) {
  const auto count = static_cast<index_t>(points.size());
  Tensor<double, 2> distance({count, count});
  for (index_t n = 0; n < distance.size(); ++n) {
    const auto [i, j] = std::pair(static_cast<std::size_t>(n / count), static_cast<std::size_t>(n % count));
    distance.data()[n] = std::abs(points[i] - points[j]);
  }
  return distance;
}

TEST(AverageLinkage, JoinsByMeanDistance) {
  // 0, 1 and 10, 11 join first, at 1; the point at 4 has mean distance 3.5 from {0, 1} and 6.5 from {10, 11}.
  const Tensor<double, 2> distance = distances_of({10, 0, 4, 1, 11});
  EXPECT_EQ(average_linkage(distance, 0.9), (Groups{0, 1, 2, 3, 4}));
  EXPECT_EQ(average_linkage(distance, 1), (Groups{0, 1, 2, 1, 0}));
  EXPECT_EQ(average_linkage(distance, 3.4), (Groups{0, 1, 2, 1, 0}));
  EXPECT_EQ(average_linkage(distance, 3.6), (Groups{0, 1, 1, 1, 0}));
  // {0, 4, 1} and {10, 11}: 10.5 - 5/3
  EXPECT_EQ(average_linkage(distance, 8.8), (Groups{0, 1, 1, 1, 0}));
  EXPECT_EQ(average_linkage(distance, 8.9), (Groups{0, 0, 0, 0, 0}));
  const Tensor<double, 2> none({0, 0}), narrow({2, 3});
  EXPECT_EQ(average_linkage(none, 1), Groups{});
  EXPECT_EQ(error_of([&] { average_linkage(narrow, 1); }),
            "average_linkage: distance must be square, got distance=[2, 3]");
}

TEST(PlaneMap, HasTheDistancesOfPointsInThePlane) {
  Random random(test::run_seed());
  constexpr index_t kCount = 12;
  Tensor<double, 2> points({kCount, 2}), squared({kCount, kCount});
  for (index_t n = 0; n < points.size(); ++n) points.data()[n] = random.uniform(-1, 1) * (n % 2 == 0 ? 3 : 1) + 5;
  const auto square_of = [](const Tensor<double, 2>& x, index_t i, index_t j) {
    return std::pow(x(i, 0) - x(j, 0), 2) + std::pow(x(i, 1) - x(j, 1), 2);
  };
  for (index_t n = 0; n < squared.size(); ++n) squared.data()[n] = square_of(points, n / kCount, n % kCount);
  const PlaneMap map = plane_map(squared);
  EXPECT_NEAR(map.share, 1, 1e-9);
  for (index_t i = 0; i < kCount; ++i) {
    for (index_t j = 0; j < kCount; ++j) EXPECT_NEAR(square_of(map.positions, i, j), squared(i, j), 1e-9);
  }
  for (const index_t axis : {0, 1}) {
    double sum = 0, largest = 0;
    for (index_t i = 0; i < kCount; ++i) {
      sum += map.positions(i, axis);
      if (std::abs(map.positions(i, axis)) > std::abs(largest)) largest = map.positions(i, axis);
    }
    EXPECT_NEAR(sum, 0, 1e-9);
    EXPECT_GT(largest, 0);
  }
}

TEST(PlaneMap, CopesWithFewPoints) {
  for (const index_t count : {0, 1, 2}) {
    Tensor<double, 2> squared({count, count});
    if (count == 2) squared(0, 1) = squared(1, 0) = 4;
    const PlaneMap map = plane_map(squared);
    ASSERT_EQ(map.positions.shape(0), count);
    const double apart = count < 2 ? 2 : std::abs(map.positions(0, 0) - map.positions(1, 0));
    EXPECT_NEAR(apart, 2, 1e-12);
    for (index_t n = 0; n < count; ++n) EXPECT_NEAR(map.positions(n, 1), 0, 1e-9);
  }
  const Tensor<double, 2> narrow({2, 3});
  EXPECT_EQ(error_of([&] { plane_map(narrow); }), "plane_map: squared must be square, got squared=[2, 3]");
}

}  // namespace
}  // namespace multihead::lens
