// confidence = mean over ordinary i of max over ordinary j with |i - j| >= min_distance of p[i,j]
#include <algorithm>
#include <cstdlib>

#include "lens/rows.hpp"
#include "multihead/lens.hpp"

namespace multihead::lens {

std::optional<double> confidence(HeadMap probs, TokenFlags special_queries, TokenFlags special_keys,
                                 index_t min_distance) {
  check_flags("confidence", probs, special_queries, special_keys);
  bool any_key = false;
  const auto largest = [&](index_t i) {
    double most = 0.0;
    for (index_t j = 0; j < probs.shape(1); ++j) {
      const bool counts = (!special_keys || !special_keys(j)) && std::abs(i - j) >= min_distance;
      if (counts) most = std::max<double>(most, probs(i, j));
      any_key = any_key || counts;
    }
    return most;
  };
  const std::optional<double> mean = mean_over_rows(probs, largest, special_queries);
  return any_key ? mean : std::nullopt;
}

}  // namespace multihead::lens
