#include "multihead/lens/head_clusters.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/require.hpp"
#include "lens/moments.hpp"

namespace multihead::lens {

std::vector<index_t> average_linkage(TensorView<const double, 2> distance, double cut) {
  require(distance.shape(0) == distance.shape(1), "average_linkage", "distance must be square",
          {{"distance", shape_text(distance.shape())}});
  const index_t count = distance.shape(0);
  Matrix mean(count, count);
  std::vector<index_t> group(static_cast<std::size_t>(count)), size(static_cast<std::size_t>(count), 1), alive;
  for (index_t i = 0; i < count; ++i) {
    for (index_t j = 0; j < count; ++j) mean(i, j) = distance(i, j);
    group[static_cast<std::size_t>(i)] = i;
    alive.push_back(i);
  }
  while (true) {
    index_t first = -1, second = -1;
    double least = cut;
    for (std::size_t n = 0; n < alive.size(); ++n) {
      for (std::size_t m = n + 1; m < alive.size(); ++m) {
        const double d = mean(alive[n], alive[m]);
        if (d < least || (first < 0 && d == least)) first = alive[n], second = alive[m], least = d;
      }
    }
    if (first < 0) break;
    const auto a = static_cast<double>(size[static_cast<std::size_t>(first)]);
    const auto b = static_cast<double>(size[static_cast<std::size_t>(second)]);
    for (const index_t other : alive) {
      mean(first, other) = mean(other, first) = (a * mean(first, other) + b * mean(second, other)) / (a + b);
    }
    size[static_cast<std::size_t>(first)] += size[static_cast<std::size_t>(second)];
    std::ranges::replace(group, second, first);
    std::erase(alive, second);
  }
  // A group is named by its smallest head, and alive is in that order.
  for (index_t& each : group) each = std::ranges::find(alive, each) - alive.begin();
  return group;
}

PlaneMap plane_map(TensorView<const double, 2> squared) {
  require(squared.shape(0) == squared.shape(1), "plane_map", "squared must be square",
          {{"squared", shape_text(squared.shape())}});
  const index_t count = squared.shape(0);
  PlaneMap result{.positions = Tensor<double, 2>({count, 2})};
  if (count < 2) return result;
  Matrix centred(count, count);
  for (index_t i = 0; i < count; ++i) {
    for (index_t j = 0; j < count; ++j) centred(i, j) = -0.5 * squared(i, j);
  }
  const Vector rows = centred.rowwise().mean();
  const Eigen::RowVectorXd columns = centred.colwise().mean();
  const double all = centred.mean();
  centred.colwise() -= rows;
  centred.rowwise() -= columns;
  centred.array() += all;
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(centred);  // ascending
  const Vector& values = solver.eigenvalues();
  const double positive = values.cwiseMax(0).sum();
  for (const index_t axis : {0, 1}) {
    const double value = std::max(values[count - 1 - axis], 0.0);
    Vector direction = solver.eigenvectors().col(count - 1 - axis) * std::sqrt(value);
    Eigen::Index largest = 0;
    direction.cwiseAbs().maxCoeff(&largest);
    if (direction[largest] < 0) direction = -direction;
    for (index_t i = 0; i < count; ++i) result.positions(i, axis) = direction[i];
    if (positive > 0) result.share += value / positive;
  }
  return result;
}

}  // namespace multihead::lens
