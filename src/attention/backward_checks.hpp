// Checks of attention_backward's arguments.
#pragma once

#include "attention/problem.hpp"

namespace multihead {

/// @throws ShapeError, UnsupportedError
Problem check_backward(const AttentionBackwardInput& input, const AttentionGradients& gradients,
                       const AttentionOptions& options);

}  // namespace multihead
