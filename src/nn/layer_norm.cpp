#include "multihead/nn/layer_norm.hpp"

#include <cmath>

#include "kernels/elementwise.hpp"
#include "nn/rows.hpp"

namespace multihead::nn {
namespace {

constexpr index_t kRowsPerTask = 32;
constexpr int kLanes = 8;  // independent partial sums, so that they can be computed in parallel

// Sum of term(j) over [0, count) in double, in a fixed order.
template <class Term>
double sum_of(index_t count, const Term& term) {
  double lanes[kLanes] = {};
  index_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(j + lane);
  }
  for (int lane = 0; j < count; ++j, ++lane) lanes[lane] += term(j);
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

struct Moments {
  double mean, scale;  // scale = 1 / sqrt(variance + epsilon)
};

template <class T>
Moments moments(const T* x, index_t count, double epsilon) {
  const auto n = static_cast<double>(count);
  const double mean = sum_of(count, [&](index_t j) { return static_cast<double>(x[j]); }) / n;
  const double variance = sum_of(count, [&](index_t j) { return (x[j] - mean) * (x[j] - mean); }) / n;
  return {mean, 1.0 / std::sqrt(variance + epsilon)};
}

}  // namespace

template <class T>
LayerNorm<T>::LayerNorm(index_t features, double eps) : weight({features}), bias({features}), epsilon(eps) {
  std::fill_n(weight.data(), features, T{1});
}

template <class T>
void LayerNorm<T>::forward(TensorView<const T, 2> x, TensorView<T, 2> y, Executor* threads) const {
  require(x.shape(1) == features() && y.shape() == x.shape() && has_contiguous_rows(x) && has_contiguous_rows(y),
          "LayerNorm", "x and y must be [n, features] with contiguous rows",
          {{"x", text_of(x)}, {"y", text_of(y)}, {"features", features()}});
  for_blocks(threads, x.shape(0), kRowsPerTask, [&](index_t begin, index_t end) {
    for (index_t n = begin; n < end; ++n) {
      const T* from = &x(n, 0);
      T* to = &y(n, 0);
      if constexpr (std::is_same_v<T, float>) {
        kernels::elementwise().layer_norm(from, weight.data(), bias.data(), epsilon, to, features());
      } else {
        const auto [mean, scale] = moments(from, features(), epsilon);
        for (index_t j = 0; j < features(); ++j) to[j] = (from[j] - mean) * scale * weight(j) + bias(j);
      }
    }
  });
}

// With xhat = (x - mean) * scale and g = dy * weight:
//   dx = scale * (g - mean(g) - xhat * mean(g * xhat)),  dweight = sum over n of dy * xhat,  dbias = sum over n of dy
template <class T>
void LayerNorm<T>::backward(TensorView<const T, 2> x, TensorView<const T, 2> dy, TensorView<T, 2> dx,
                            LayerNorm* gradients, Executor* threads) const {
  const auto fits = [&](const auto& view) { return view.shape() == x.shape() && has_contiguous_rows(view); };
  require(x.shape(1) == features() && fits(x) && fits(dy) && (!dx || fits(dx)) &&
              (gradients == nullptr || gradients->features() == features()),
          "LayerNorm", "x, dy and dx must be [n, features] with contiguous rows, gradients [features]",
          {{"x", text_of(x)},
           {"dy", text_of(dy)},
           {"dx", text_of(dx)},
           {"features", features()},
           {"gradient_features", gradients ? gradients->features() : features()}});
  const index_t num_rows = x.shape(0);
  Tensor<double, 2> rows({num_rows, 2});  // mean and scale of each
  for_blocks(threads, num_rows, kRowsPerTask, [&](index_t begin, index_t end) {
    for (index_t n = begin; n < end; ++n) {
      const auto [mean, scale] = moments(&x(n, 0), features(), epsilon);
      rows(n, 0) = mean, rows(n, 1) = scale;
    }
  });
  const auto xhat = [&](index_t n, index_t j) { return (x(n, j) - rows(n, 0)) * rows(n, 1); };
  if (gradients != nullptr) {
    add_column_sums(threads, num_rows, gradients->weight.view(),
                    [&](index_t n, index_t j) { return dy(n, j) * xhat(n, j); });
    add_column_sums(threads, num_rows, gradients->bias.view(), [&](index_t n, index_t j) { return dy(n, j); });
  }
  if (!dx) return;
  for_blocks(threads, num_rows, kRowsPerTask, [&](index_t begin, index_t end) {
    const auto count = static_cast<double>(features());
    for (index_t n = begin; n < end; ++n) {
      const auto g = [&](index_t j) { return static_cast<double>(dy(n, j)) * weight(j); };
      const double mean_g = sum_of(features(), g) / count;
      const double mean_gx = sum_of(features(), [&](index_t j) { return g(j) * xhat(n, j); }) / count;
      for (index_t j = 0; j < features(); ++j) {
        dx(n, j) = static_cast<T>(rows(n, 1) * (g(j) - mean_g - xhat(n, j) * mean_gx));
      }
    }
  });
}

template struct LayerNorm<float>;
template struct LayerNorm<double>;

}  // namespace multihead::nn
