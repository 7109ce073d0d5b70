// share = mean_i sum_{j special} p[i,j]
#include "lens/rows.hpp"
#include "multihead/lens.hpp"

namespace multihead::lens {

std::optional<double> special_share(HeadMap probs, TokenFlags special_keys) {
  const index_t keys = probs.shape(1);
  check_flags("special_share", probs, {}, special_keys);
  return mean_over_rows(probs, [&](index_t i) {
    double share = 0.0;
    for (index_t j = 0; special_keys && j < keys; ++j) {
      if (special_keys(j)) share += probs(i, j);
    }
    return share;
  });
}

}  // namespace multihead::lens
