// The learning rate of step t = 1, 2, ..: a linear rise, then the inverse square root, and a linear end if there is
// one.
//
//   rate(t) = peak * min(t / warmup, sqrt(warmup / t))                                     Vaswani et al. 2017, eq. 3
//   rate(t) = rate(begin) * max(0, end + 1 - t) / (end + 1 - begin)          for t > begin, with a linear tail
//
// rate(warmup) = peak and rate(4 * warmup) = peak / 2. The last step of a tail, t = end, still moves the parameters;
// after it the rate is 0.
#pragma once

#include <optional>

#include "multihead/types.hpp"

namespace multihead::train {

/// Steps (begin, end] fall linearly.
struct LinearTail {
  index_t begin = 0;  ///< at least 1
  index_t end = 0;    ///< above begin
};

struct LearningRate {
  double peak = 2e-3;    ///< finite, above 0
  index_t warmup = 500;  ///< steps, at least 1
  std::optional<LinearTail> tail;
};

/// @param step  t, at least 1
/// @throws ShapeError  if the step or a field is out of its range
MULTIHEAD_API double learning_rate(const LearningRate& schedule, index_t step);

}  // namespace multihead::train
