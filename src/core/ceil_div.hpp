// Division of extents that rounds up.
#pragma once

#include "multihead/types.hpp"

namespace multihead {

/// The least n with n * divisor >= value; value >= 0, divisor >= 1.
constexpr index_t ceil_div(index_t value, index_t divisor) { return (value + divisor - 1) / divisor; }

/// The least multiple of `unit` that is at least `value`.
constexpr index_t round_up(index_t value, index_t unit) { return ceil_div(value, unit) * unit; }

}  // namespace multihead
