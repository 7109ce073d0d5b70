// Groups of heads, and a map of them in the plane, from the distances of all pairs.
#pragma once

#include <vector>

#include "multihead/tensor.hpp"

namespace multihead::lens {

/// Average linkage (Sokal & Michener 1958): the two groups with the smallest mean distance are joined, until it is
/// above `cut`.
/// @param distance  [N, N], symmetric; the diagonal does not matter
/// @returns [N] the number of each head's group, counted by their first heads
/// @throws ShapeError  if it is not square
/// Cost  O(N^3).
MULTIHEAD_API std::vector<index_t> average_linkage(TensorView<const double, 2> distance, double cut);

struct PlaneMap {
  Tensor<double, 2> positions;  ///< [N, 2], about the origin; the largest coordinate of an axis is positive
  double share = 0;             ///< of the sum of squares of the positive axes, what the first two have
};

/// Classical multidimensional scaling (Torgerson 1952): the two largest axes of B = -1/2 J D2 J, J = I - 1/N.
/// @param squared  D2 [N, N] squared distances, symmetric
/// @throws ShapeError  if it is not square
/// Cost  O(N^3).
MULTIHEAD_API PlaneMap plane_map(TensorView<const double, 2> squared);

}  // namespace multihead::lens
