// Division of extents that rounds up.
#pragma once

#include <type_traits>

namespace multihead {

/// The least n with n * divisor >= value; value >= 0, divisor >= 1. No intermediate overflows.
template <class T>
constexpr T ceil_div(T value, std::type_identity_t<T> divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

/// The least multiple of `unit` that is at least `value`.
template <class T>
constexpr T round_up(T value, std::type_identity_t<T> unit) {
  return ceil_div(value, unit) * unit;
}

}  // namespace multihead
