// Checks of attention_forward's arguments.
#pragma once

#include "attention/problem.hpp"

namespace multihead {

/// @throws ShapeError, UnsupportedError
Problem check_forward(const AttentionInput& input, const AttentionOutput& output, const AttentionOptions& options);

}  // namespace multihead
