// The exponential of every target against the C library's long double, over all of its range.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/core/exp.cpp"
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/exp-inl.hpp"
#include "multihead/types.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

template <class T>
T Exp2One(T x) {
  const hn::ScalableTag<T> d;
  return hn::GetLane(Exp2(d, hn::Set(d, x)));
}
float Exp2F32(float x) { return Exp2One(x); }
float ExpMinusF32(float x, float shift) {
  const hn::ScalableTag<float> d;
  return hn::GetLane(ExpMinus(d, hn::Set(d, x), hn::Set(d, shift)));
}
double Exp2F64(double x) { return Exp2One(x); }
/// y[n] = e^(x[n] - shift) for a multiple of 16 numbers, a full vector at a time: every lane its own.
void ExpMinusAll(const float* x, index_t count, float shift, float* y) {
  const hn::ScalableTag<float> d;
  for (index_t n = 0; n < count; n += static_cast<index_t>(hn::Lanes(d))) {
    hn::StoreU(ExpMinus(d, hn::LoadU(d, x + n), hn::Set(d, shift)), d, y + n);
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace multihead::kernels {
namespace {

HWY_EXPORT(Exp2F32);
HWY_EXPORT(Exp2F64);
HWY_EXPORT(ExpMinusF32);
HWY_EXPORT(ExpMinusAll);

float exp2_of(float x) { return HWY_DYNAMIC_DISPATCH(Exp2F32)(x); }
double exp2_of(double x) { return HWY_DYNAMIC_DISPATCH(Exp2F64)(x); }
float exp_minus(float x, float shift) { return HWY_DYNAMIC_DISPATCH(ExpMinusF32)(x, shift); }

template <class T>
double largest_relative_error(T begin, T end, int steps) {
  double largest = 0;
  for (int n = 0; n <= steps; ++n) {
    const T x = begin + (end - begin) * static_cast<T>(n) / static_cast<T>(steps);
    const long double exact = std::exp2(static_cast<long double>(x));
    largest = std::max(largest, static_cast<double>(std::abs((exp2_of(x) - exact) / exact)));
  }
  return largest;
}

class Exp : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

TEST_P(Exp, StaysWithinItsStatedError) {
  EXPECT_LT(largest_relative_error(-125.9f, 0.0f, 200'000), 1.3e-7);
  EXPECT_LT(largest_relative_error(-1.0f, 1.0f, 200'000), 1.3e-7);
  EXPECT_LT(largest_relative_error(-1021.0, 0.0, 200'000), 4e-16);
}

TEST_P(Exp, OfADifferenceStaysWithinItsStatedError) {
  const bool fma = GetParam() <= HWY_AVX2;
  const double growth = fma ? 2e-8 : 1.2e-7;
  for (int n = 0; n <= 200'000; ++n) {
    const float x = -87.0f * static_cast<float>(n) / 200'000;
    const double exact = std::exp(static_cast<double>(x));
    ASSERT_LT(std::abs(exp_minus(x, 0) - exact) / exact, 2.3e-7 + growth * std::abs(x)) << x;
  }
  EXPECT_EQ(exp_minus(3e38f, 3e38f), 1.0f);
  EXPECT_EQ(exp_minus(-88.0f, 0), 0.0f);
  EXPECT_EQ(exp_minus(-std::numeric_limits<float>::infinity(), 3), 0.0f);
  EXPECT_TRUE(std::isnan(exp_minus(std::numeric_limits<float>::quiet_NaN(), 0)));
}

// Neighbouring lanes take different powers from the tables; the border below which weights are 0 lies in the range.
TEST_P(Exp, OfADifferenceKnowsItsLane) {
  const double border = -126 / std::log2(std::exp(1.0));  // e^border = 2^-126
  const bool fma = GetParam() <= HWY_AVX2;
  const double growth = fma ? 2e-8 : 1.2e-7;
  std::vector<float> x, y;
  for (int n = 0; n < 16 * 12'500; ++n) x.push_back(-88.5f * static_cast<float>(n * 7919 % 200'000) / 200'000);
  for (int n = -800; n < 800; ++n) x.push_back(static_cast<float>(border * (1 + n * 1e-7)));
  y.resize(x.size());
  HWY_DYNAMIC_DISPATCH(ExpMinusAll)(x.data(), static_cast<index_t>(x.size()), 0, y.data());
  for (std::size_t n = 0; n < x.size(); ++n) {
    if (std::abs(x[n] - border) < 2e-5) {  // the float nearest to the border and its neighbours may fall on either side
      ASSERT_TRUE(y[n] == 0 || std::abs(y[n] / 0x1p-126 - 1) < 3e-5) << x[n];
    } else if (x[n] < border) {
      ASSERT_EQ(y[n], 0) << x[n];
    } else {
      const double exact = std::exp(static_cast<double>(x[n]));
      ASSERT_LT(std::abs(y[n] - exact) / exact, 2.3e-7 + growth * std::abs(x[n])) << x[n];
    }
  }
}

TEST_P(Exp, OfADifferenceKeepsNanInItsLane) {
  for (std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7fc00001u, 0x7fffffffu, 0xffffffffu, 0xff812345u}) {
    for (std::size_t lane = 0; lane < 16; ++lane) {
      float x[16], y[16];
      for (std::size_t n = 0; n < 16; ++n) x[n] = n % 2 == 0 ? 3 : -std::numeric_limits<float>::infinity();
      x[lane] = std::bit_cast<float>(bits);
      HWY_DYNAMIC_DISPATCH(ExpMinusAll)(x, 16, 3, y);
      for (std::size_t n = 0; n < 16; ++n) {
        if (n == lane) {
          EXPECT_TRUE(std::isnan(y[n])) << bits << " in lane " << lane;
        } else {
          EXPECT_EQ(y[n], n % 2 == 0 ? 1 : 0) << "lane " << n << " beside NaN in " << lane;
        }
      }
    }
  }
}

TEST_P(Exp, IsOneAtZeroAndZeroFarBelow) {
  EXPECT_EQ(exp2_of(0.0f), 1.0f);
  EXPECT_EQ(exp2_of(0.0), 1.0);
  for (float x : {-126.01f, -200.0f, -1e30f, -std::numeric_limits<float>::infinity()}) EXPECT_EQ(exp2_of(x), 0.0f) << x;
  for (double x : {-1022.5, -1e300, -std::numeric_limits<double>::infinity()}) EXPECT_EQ(exp2_of(x), 0.0) << x;
}

TEST_P(Exp, KeepsNanOfAnyPayload) {
  for (std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7fc00001u, 0x7fffffffu, 0xff812345u}) {
    EXPECT_TRUE(std::isnan(exp2_of(std::bit_cast<float>(bits)))) << bits;
  }
  EXPECT_TRUE(std::isnan(exp2_of(std::numeric_limits<double>::quiet_NaN())));
}

std::vector<std::int64_t> supported_targets() {
  std::vector<std::int64_t> targets;
  for (std::int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
    targets.push_back(rest & -rest);
  }
  return targets;
}

INSTANTIATE_TEST_SUITE_P(Targets, Exp, testing::ValuesIn(supported_targets()),
                         [](const auto& target) { return std::string(hwy::TargetName(target.param)); });

}  // namespace
}  // namespace multihead::kernels
#endif
