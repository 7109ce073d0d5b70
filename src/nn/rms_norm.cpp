#include "multihead/nn/rms_norm.hpp"

#include <cmath>

#include "nn/row_sums.hpp"
#include "nn/rows.hpp"

namespace multihead::nn {
namespace {

constexpr index_t kRowsPerTask = 32;

template <class T>
double scale_of(const T* x, index_t features, double epsilon) {
  const double squares = sum_of(features, [&](index_t j) { return static_cast<double>(x[j]) * x[j]; });
  return 1.0 / std::sqrt(squares / static_cast<double>(features) + epsilon);
}

}  // namespace

template <class T>
RmsNorm<T>::RmsNorm(index_t features, double eps) : weight({features}), epsilon(eps) {
  std::fill_n(weight.data(), features, T{1});
}

template <class T>
void RmsNorm<T>::forward(TensorView<const T, 2> x, TensorView<T, 2> y, Executor* threads) const {
  require(x.shape(1) == features() && y.shape() == x.shape() && has_contiguous_rows(x) && has_contiguous_rows(y),
          "RmsNorm", "x and y must be [n, features] with contiguous rows",
          {{"x", text_of(x)}, {"y", text_of(y)}, {"features", features()}});
  for_blocks(threads, x.shape(0), kRowsPerTask, [&](index_t begin, index_t end) {
    for (index_t n = begin; n < end; ++n) {
      const T* from = &x(n, 0);
      T* to = &y(n, 0);
      const double scale = scale_of(from, features(), epsilon);
      for (index_t j = 0; j < features(); ++j) to[j] = static_cast<T>(from[j] * scale * weight(j));
    }
  });
}

// With xhat = x * scale and g = dy * weight:
//   dx = scale * (g - xhat * mean(g * xhat)),  dweight = sum over n of dy * xhat
template <class T>
void RmsNorm<T>::backward(TensorView<const T, 2> x, TensorView<const T, 2> dy, TensorView<T, 2> dx, RmsNorm* gradients,
                          Executor* threads) const {
  const auto fits = [&](const auto& view) { return view.shape() == x.shape() && has_contiguous_rows(view); };
  require(x.shape(1) == features() && fits(x) && fits(dy) && (!dx || fits(dx)) &&
              (gradients == nullptr || gradients->features() == features()),
          "RmsNorm", "x, dy and dx must be [n, features] with contiguous rows, gradients [features]",
          {{"x", text_of(x)},
           {"dy", text_of(dy)},
           {"dx", text_of(dx)},
           {"features", features()},
           {"gradient_features", gradients ? gradients->features() : features()}});
  Tensor<double, 1> scales({x.shape(0)});
  for_blocks(threads, x.shape(0), kRowsPerTask, [&](index_t begin, index_t end) {
    for (index_t n = begin; n < end; ++n) scales(n) = scale_of(&x(n, 0), features(), epsilon);
  });
  if (gradients != nullptr) {
    add_column_sums(threads, x.shape(0), gradients->weight.view(),
                    [&](index_t n, index_t j) { return dy(n, j) * (x(n, j) * scales(n)); });
  }
  if (!dx) return;
  for_blocks(threads, x.shape(0), kRowsPerTask, [&](index_t begin, index_t end) {
    for (index_t n = begin; n < end; ++n) {
      const T *from = &x(n, 0), *above = &dy(n, 0);
      const auto g = [&](index_t j) { return static_cast<double>(above[j]) * weight(j); };
      const double sum = sum_of(features(), [&](index_t j) { return g(j) * from[j]; });
      const double mean_gx = sum * scales(n) / static_cast<double>(features());
      for (index_t j = 0; j < features(); ++j) {
        dx(n, j) = static_cast<T>(scales(n) * (g(j) - from[j] * scales(n) * mean_gx));
      }
    }
  });
}

template struct RmsNorm<float>;
template struct RmsNorm<double>;

}  // namespace multihead::nn
