// H(i) = -sum_j p[i,j] log p[i,j], natural logarithm, 0 log 0 = 0.
#include <cmath>

#include "lens/rows.hpp"
#include "multihead/lens.hpp"

namespace multihead::lens {

double row_entropy(HeadMap probs, index_t i) {
  double entropy = 0.0;
  for (index_t j = 0; j < probs.shape(1); ++j) {
    const double p = probs(i, j);
    if (p > 0.0) entropy -= p * std::log(p);
  }
  return entropy;
}

std::optional<double> mean_entropy(HeadMap probs) {
  return mean_over_rows(probs, [&](index_t i) { return row_entropy(probs, i); });
}

}  // namespace multihead::lens
