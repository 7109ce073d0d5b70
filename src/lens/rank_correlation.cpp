#include "multihead/lens/rank_correlation.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/require.hpp"

namespace multihead::lens {
namespace {

/// Indices from the smallest value to the largest; of equal values the later comes first.
std::vector<std::size_t> ascending(std::span<const double> x) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t i, std::size_t j) { return x[i] < x[j]; });
  return order;
}

std::vector<double> ranks(std::span<const double> x) {
  const std::vector<std::size_t> order = ascending(x);
  std::vector<double> rank(x.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && x[order[end]] == x[order[begin]]) ++end;
    for (std::size_t n = begin; n < end; ++n) rank[order[n]] = static_cast<double>(begin + end - 1) / 2;
    begin = end;
  }
  return rank;
}

}  // namespace

std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b) {
  require(a.size() == b.size(), "rank_correlation", "both must have as many values",
          {{"a", a.size()}, {"b", b.size()}});
  if (a.size() < 2) return {};
  const std::vector<double> x = ranks(a), y = ranks(b);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t n = 0; n < x.size(); ++n) {
    xx += (x[n] - mean) * (x[n] - mean);
    yy += (y[n] - mean) * (y[n] - mean);
    xy += (x[n] - mean) * (y[n] - mean);
  }
  if (xx == 0 || yy == 0) return {};
  return xy / std::sqrt(xx * yy);
}

std::optional<double> top_overlap(std::span<const double> a, std::span<const double> b, double share) {
  require(a.size() == b.size(), "top_overlap", "both must have as many values", {{"a", a.size()}, {"b", b.size()}});
  require(share > 0 && share <= 1, "top_overlap", "share must be in (0, 1]", {{"share", share}});
  if (a.empty()) return {};
  const auto count =
      std::max<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(std::round(share * static_cast<double>(a.size()))), 1);
  const std::vector<std::size_t> x = ascending(a), y = ascending(b);
  const auto common = std::count_if(x.end() - count, x.end(),
                                    [&](std::size_t n) { return std::find(y.end() - count, y.end(), n) != y.end(); });
  return static_cast<double>(common) / static_cast<double>(count);
}

}  // namespace multihead::lens
