// log2 in f32, without a branch, so that a loop over many is vectorised.
//
//   x = 2^e m, m in [sqrt(1/2), sqrt(2));   log2 x = e + 2/ln 2 (s + s^3/3 + s^5/5 + s^7/7 + ..),  s = (m - 1) / (m +
//   1)
//
// |s| <= 0.1716; what is cut off is s^8/9 of the sum, 8.4e-8. Relative error below 5e-7 for x in [FLT_MIN, FLT_MAX],
// rounding included. Below FLT_MIN the result is that of FLT_MIN, so that 0 log2 0 = 0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace multihead::lens {

inline float fast_log2(float x) {
  constexpr float kScale = 2.885390081777927f;    // 2 / ln 2
  constexpr std::int32_t kSqrtHalf = 0x3f3504f3;  // bits of sqrt(1/2)
  // Floats >= 0 are in the order of their bits; a comparison of floats would keep the loop from being vectorised.
  constexpr std::int32_t kSmallest = 0x00800000;  // bits of FLT_MIN
  const std::int32_t bits = std::max(std::bit_cast<std::int32_t>(x), kSmallest);
  const std::int32_t exponent = (bits - kSqrtHalf) >> 23;
  const auto m = std::bit_cast<float>(bits - exponent * (1 << 23));
  const float s = (m - 1) / (m + 1), t = s * s;
  const float series = 1 + t * (1 / 3.0f + t * (1 / 5.0f + t * (1 / 7.0f)));
  return static_cast<float>(exponent) + kScale * s * series;
}

}  // namespace multihead::lens
