#include "multihead/nn/layer_norm.hpp"

#include <cmath>

#include "kernels/elementwise.hpp"
#include "kernels/training.hpp"
#include "nn/row_sums.hpp"
#include "nn/rows.hpp"

namespace multihead::nn {
namespace {

constexpr index_t kRowsPerTask = 32;

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

// With xhat = (x - mean) * scale and g = dy * weight:
//   dx = scale * (g - mean(g) - xhat * mean(g * xhat)),  dweight = sum over n of dy * xhat,  dbias = sum over n of dy
// Sums over the rows of a task are f32 in f32, those over tasks double.
void backward_rows(const LayerNorm<float>& norm, TensorView<const float, 2> x, TensorView<const float, 2> dy,
                   TensorView<float, 2> dx, LayerNorm<float>* gradients, Executor* threads) {
  const index_t features = norm.features();
  const index_t num_tasks = gradients != nullptr ? ceil_div(x.shape(0), kRowsPerTask) : 0;
  Tensor<float, 3> sums({num_tasks, 2, features});
  const auto& kernel = kernels::training();
  for_blocks(threads, x.shape(0), kRowsPerTask, [&](index_t begin, index_t end) {
    float* const of_task = gradients != nullptr ? &sums(begin / kRowsPerTask, 0, 0) : nullptr;
    for (index_t n = begin; n < end; ++n) {
      kernel.layer_norm_backward(&x(n, 0), norm.weight.data(), &dy(n, 0), norm.epsilon, dx ? &dx(n, 0) : nullptr,
                                 of_task, of_task != nullptr ? of_task + features : nullptr, features);
    }
  });
  if (gradients == nullptr) return;
  const TensorView<const float, 2> rows(sums.data(), {num_tasks, 2 * features});
  add_rows<float>(rows.slice(1, 0, features), gradients->weight.view(), threads);
  add_rows<float>(rows.slice(1, features, 2 * features), gradients->bias.view(), threads);
}

void backward_rows(const LayerNorm<double>& norm, TensorView<const double, 2> x, TensorView<const double, 2> dy,
                   TensorView<double, 2> dx, LayerNorm<double>* gradients, Executor* threads) {
  const index_t num_rows = x.shape(0), features = norm.features();
  Tensor<double, 2> rows({num_rows, 2});  // mean and scale of each
  for_blocks(threads, num_rows, kRowsPerTask, [&](index_t begin, index_t end) {
    for (index_t n = begin; n < end; ++n) {
      const auto [mean, scale] = moments(&x(n, 0), features, norm.epsilon);
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
    const auto count = static_cast<double>(features);
    for (index_t n = begin; n < end; ++n) {
      const auto g = [&](index_t j) { return dy(n, j) * norm.weight(j); };
      const double mean_g = sum_of(features, g) / count;
      const double mean_gx = sum_of(features, [&](index_t j) { return g(j) * xhat(n, j); }) / count;
      for (index_t j = 0; j < features; ++j) dx(n, j) = rows(n, 1) * (g(j) - mean_g - xhat(n, j) * mean_gx);
    }
  });
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
  backward_rows(*this, x, dy, dx, gradients, threads);
}

template struct LayerNorm<float>;
template struct LayerNorm<double>;

}  // namespace multihead::nn
