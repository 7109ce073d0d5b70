// Tensors of random numbers, their differences, and central differences in f64 for layers of few parameters.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "multihead/tensor.hpp"
#include "tests/support/random.hpp"

namespace multihead::test {

template <class T, int R>
void fill(Tensor<T, R>& tensor, Random& random, double offset = 0) {
  for (index_t i = 0; i < tensor.size(); ++i) tensor.data()[i] = static_cast<T>(offset + random.uniform());
}

template <class T, int R>
Tensor<double, R> widen(const Tensor<T, R>& from) {
  Tensor<double, R> to(from.shape());
  std::copy_n(from.data(), from.size(), to.data());
  return to;
}

template <class T, int R>
double largest_difference(const Tensor<T, R>& a, const Tensor<double, R>& b) {
  double largest = 0;
  for (index_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a.data()[i] - b.data()[i]));
  return largest;
}

// Expects gradient[i] = the five-point difference of the loss, whose error is of order h^4: rows of small variance bend
// a layer norm so much that the three-point one is off by 1e-7.
template <int R>
void expect_gradient(const char* name, Tensor<double, R>& values, const Tensor<double, R>& gradient,
                     const std::function<double()>& loss) {
  ASSERT_EQ(values.shape(), gradient.shape()) << name;
  constexpr double kStep = 1e-4;
  for (index_t i = 0; i < values.size(); ++i) {
    double& x = values.data()[i];
    const double before = x;
    const auto slope_over = [&](double step) {
      x = before + step;
      const double above = loss();
      x = before - step;
      const double below = loss();
      x = before;
      return (above - below) / (2 * step);
    };
    const double difference = (4 * slope_over(kStep) - slope_over(2 * kStep)) / 3;
    EXPECT_NEAR(gradient.data()[i], difference, 1e-7) << name << " entry " << i;
  }
}

inline double dot(const Tensor<double, 2>& a, const Tensor<double, 2>& b) {
  double sum = 0;
  for (index_t i = 0; i < a.size(); ++i) sum += a.data()[i] * b.data()[i];
  return sum;
}

}  // namespace multihead::test
