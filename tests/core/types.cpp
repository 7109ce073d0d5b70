#include "multihead/types.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace multihead {
namespace {

/// The value of binary16 bits, from the definition.
double value_of_f16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(F16, EveryValueReadsAndRoundTrips) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const f16 x{static_cast<std::uint16_t>(bits)};
    const double exact = value_of_f16(x.bits);
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(to_float(x)));
      EXPECT_TRUE(std::isnan(to_float(to_f16(to_float(x)))));
      continue;
    }
    ASSERT_EQ(to_float(x), exact) << bits;
    ASSERT_EQ(std::signbit(to_float(x)), std::signbit(exact)) << bits;
    ASSERT_EQ(to_f16(to_float(x)).bits, bits);
  }
}

/// Between two neighbours: below the middle down, above it up, the middle to the even one.
TEST(F16, RoundsToNearestEven) {
  for (std::uint16_t low = 0; low < 0x7bff; ++low) {
    const float a = to_float(f16{low}), b = to_float(f16{static_cast<std::uint16_t>(low + 1)});
    const float middle = 0.5f * (a + b);  // exact in f32
    const std::uint16_t even = low % 2 == 0 ? low : static_cast<std::uint16_t>(low + 1);
    ASSERT_EQ(to_f16(middle).bits, even) << low;
    ASSERT_EQ(to_f16(std::nextafter(middle, a)).bits, low) << low;
    ASSERT_EQ(to_f16(std::nextafter(middle, b)).bits, low + 1) << low;
    ASSERT_EQ(to_f16(-middle).bits, even | 0x8000) << low;
  }
}

TEST(F16, OverflowsToInfinity) {
  EXPECT_EQ(to_f16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(to_f16(65519.99f).bits, 0x7bff);
  EXPECT_EQ(to_f16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_f16(1e30f).bits, 0x7c00);
  EXPECT_EQ(to_f16(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
  EXPECT_EQ(to_f16(1e-30f).bits, 0);
}

TEST(Bf16, EveryValueRoundTripsAndMiddlesGoToEven) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bf16 x{static_cast<std::uint16_t>(bits)};
    if (std::isnan(to_float(x))) {
      EXPECT_TRUE(std::isnan(to_float(to_bf16(to_float(x)))));
      continue;
    }
    ASSERT_EQ(to_bf16(to_float(x)).bits, bits);
    if ((bits & 0x7fff) >= 0x7f7f) continue;  // the next one is infinity
    const float middle = std::bit_cast<float>(bits << 16 | 0x8000u);
    ASSERT_EQ(to_bf16(middle).bits, bits + (bits & 1));
    ASSERT_EQ(to_bf16(std::bit_cast<float>(bits << 16 | 0x8001u)).bits, bits + 1);
    ASSERT_EQ(to_bf16(std::bit_cast<float>(bits << 16 | 0x7fffu)).bits, bits);
  }
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);  // rounds past the largest
}

TEST(DType, NamesAndBytes) {
  EXPECT_STREQ(dtype_name(DType::bf16), "bf16");
  EXPECT_EQ(dtype_bytes(DType::f64), 8);
  EXPECT_EQ(dtype_of<const f16>, DType::f16);
}

}  // namespace
}  // namespace multihead
