// confidence = mean over ordinary i of max over ordinary j with |i - j| >= min_distance of p[i,j]
#include <algorithm>
#include <cstdlib>

#include "lens/rows.hpp"
#include "multihead/lens.hpp"

namespace multihead::lens {

std::optional<double> confidence(HeadMap probs, TokenFlags special_queries, TokenFlags special_keys,
                                 index_t min_distance) {
  check_flags("confidence", probs, special_queries, special_keys);
  const auto largest = [&](index_t i) {
    double most = 0.0;
    for (index_t j = 0; j < probs.shape(1); ++j) {
      const bool counts = !special_keys || !special_keys(j);
      if (counts && std::abs(i - j) >= min_distance) most = std::max<double>(most, probs(i, j));
    }
    return most;
  };
  return mean_over_rows(probs, largest, special_queries);
}

}  // namespace multihead::lens
