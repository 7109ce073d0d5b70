// What the statistics share: the check of their flags, and a mean over the rows that see at least one key.
#pragma once

#include <optional>

#include "core/require.hpp"
#include "multihead/lens.hpp"

namespace multihead::lens {

/// @throws ShapeError  if a list of flags is given and its length is not Sq or Skv
inline void check_flags(const char* function, HeadMap probs, TokenFlags special_queries, TokenFlags special_keys) {
  require(!special_queries || special_queries.shape(0) == probs.shape(0), function,
          "special_queries must have one flag a query",
          {{"special_queries", special_queries.shape(0)}, {"seqlen_q", probs.shape(0)}});
  require(!special_keys || special_keys.shape(0) == probs.shape(1), function, "special_keys must have one flag a key",
          {{"special_keys", special_keys.shape(0)}, {"seqlen_kv", probs.shape(1)}});
}

inline bool sees_a_key(HeadMap probs, index_t i) {
  for (index_t j = 0; j < probs.shape(1); ++j) {
    if (probs(i, j) != 0.0f) return true;
  }
  return false;
}

/// Rows whose flag is set in `leave_out` do not count either.
template <class Statistic>
std::optional<double> mean_over_rows(HeadMap probs, Statistic&& of_row, TokenFlags leave_out = {}) {
  double sum = 0.0;
  index_t rows = 0;
  for (index_t i = 0; i < probs.shape(0); ++i) {
    if ((leave_out && leave_out(i)) || !sees_a_key(probs, i)) continue;
    sum += of_row(i);
    ++rows;
  }
  if (rows == 0) return std::nullopt;
  return sum / static_cast<double>(rows);
}

}  // namespace multihead::lens
