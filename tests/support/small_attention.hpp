// Attention on numbers that one can check by eye.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "multihead/attention.hpp"
#include "multihead/tensor.hpp"

namespace multihead::test {

/// A tensor of the given values, row by row.
template <class T = float, int R>
Tensor<T, R> tensor(const index_t (&shape)[R], const std::vector<T>& values) {
  std::array<index_t, R> extents;
  std::copy_n(shape, R, extents.begin());
  Tensor<T, R> result(extents);
  EXPECT_EQ(result.size(), static_cast<index_t>(values.size()));
  std::copy(values.begin(), values.end(), result.data());
  return result;
}

/// Flags as a tensor; std::vector<bool> has no array in it.
template <int R>
Tensor<bool, R> flags(const index_t (&shape)[R], const std::vector<int>& values) {
  std::array<index_t, R> extents;
  std::copy_n(shape, R, extents.begin());
  Tensor<bool, R> result(extents);
  for (index_t n = 0; n < result.size(); ++n) result.data()[n] = values[static_cast<std::size_t>(n)] != 0;
  return result;
}

inline std::vector<float> list(const Tensor<float, 4>& x) { return {x.data(), x.data() + x.size()}; }

/// One head of width 1 with q = k = 0: all visible keys weigh the same and out is the mean of their values.
struct Means {
  std::vector<float> out, probs, lse;
};
inline Means means(index_t seqlen_q, const std::vector<float>& values, const AttentionOptions& options) {
  const auto seqlen_kv = static_cast<index_t>(values.size());
  const Tensor<float, 4> q({1, seqlen_q, 1, 1}), k({1, seqlen_kv, 1, 1});
  const auto v = tensor({1, seqlen_kv, 1, 1}, values);
  Tensor<float, 4> out({1, seqlen_q, 1, 1}), probs({1, 1, seqlen_q, seqlen_kv});
  Tensor<float, 3> lse({1, 1, seqlen_q});
  attention_forward({.q = q.view(), .k = k.view(), .v = v.view()},
                    {.out = out.view(), .probs = probs.view(), .lse = lse.view()}, options);
  return {list(out), list(probs), {lse.data(), lse.data() + seqlen_q}};
}

/// Equal but for the last bits.
inline void expect_near(const std::vector<float>& actual, const std::vector<double>& expected,
                        double tolerance = 1e-6) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t n = 0; n < actual.size(); ++n) {
    EXPECT_NEAR(actual[n], expected[n], tolerance * std::max(1.0, std::abs(expected[n]))) << "element " << n;
  }
}

}  // namespace multihead::test
