// How alike two rankings of the same things are.
#pragma once

#include <optional>
#include <span>

#include "multihead/export.hpp"

namespace multihead::lens {

/// Spearman's rho: the correlation of ranks, equal values sharing the mean of theirs; 1 = the same order, -1 =
/// reversed. None with fewer than two values, or where all values of a side are equal.
/// @throws ShapeError  if the lengths differ
/// Cost O(n log n).
MULTIHEAD_API std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b);

/// Of the `share` with the largest values of `a`, at least one: how many are among those of `b`, as a share. Of equal
/// values the first count as larger.
/// @throws ShapeError  if the lengths differ, or share is not in (0, 1]
MULTIHEAD_API std::optional<double> top_overlap(std::span<const double> a, std::span<const double> b, double share);

}  // namespace multihead::lens
