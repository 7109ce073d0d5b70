// A mean over the rows of a map that see at least one key.
#pragma once

#include <optional>

#include "multihead/lens.hpp"

namespace multihead::lens {

inline bool sees_a_key(HeadMap probs, index_t i) {
  for (index_t j = 0; j < probs.shape(1); ++j) {
    if (probs(i, j) != 0.0f) return true;
  }
  return false;
}

template <class Statistic>
std::optional<double> mean_over_rows(HeadMap probs, Statistic&& of_row) {
  double sum = 0.0;
  index_t rows = 0;
  for (index_t i = 0; i < probs.shape(0); ++i) {
    if (!sees_a_key(probs, i)) continue;
    sum += of_row(i);
    ++rows;
  }
  if (rows == 0) return std::nullopt;
  return sum / static_cast<double>(rows);
}

}  // namespace multihead::lens
