#include "nn/head_norm.hpp"

#include <cmath>

namespace multihead::nn {
namespace {

template <class T>
T inverse_rms(const T* x, index_t head_dim, double epsilon) {
  double sum = 0;
  for (index_t d = 0; d < head_dim; ++d) sum += static_cast<double>(x[d]) * static_cast<double>(x[d]);
  return static_cast<T>(1 / std::sqrt(sum / static_cast<double>(head_dim) + epsilon));
}

// Calls visit(row of a, row of b) for each head of each token.
template <class A, class B, class Visit>
void for_heads(TensorView<A, 4> a, TensorView<B, 4> b, Visit&& visit) {
  for (index_t n = 0; n < a.shape(0); ++n) {
    for (index_t i = 0; i < a.shape(1); ++i) {
      for (index_t h = 0; h < a.shape(2); ++h) visit(a[n][i][h].data(), b[n][i][h].data());
    }
  }
}

}  // namespace

template <class T>
void head_norm(TensorView<const T, 4> x, const Tensor<T, 1>& w, double epsilon, TensorView<T, 4> y) {
  const index_t head_dim = x.shape(3);
  for_heads(x, y, [&](const T* from, T* to) {
    const T r = inverse_rms(from, head_dim, epsilon);
    for (index_t d = 0; d < head_dim; ++d) to[d] = w(d) * (from[d] * r);
  });
}

// dx[d] = r * (w[d] dy[d] - x[d] r^2 / D * sum_e w[e] dy[e] x[e])        dw[d] = sum of dy[d] x[d] r
template <class T>
void head_norm_backward(TensorView<const T, 4> x, const Tensor<T, 1>& w, double epsilon, TensorView<T, 4> dy,
                        Tensor<T, 1>* dw) {
  const index_t head_dim = x.shape(3);
  for_heads(x, dy, [&](const T* from, T* grad) {
    const T r = inverse_rms(from, head_dim, epsilon);
    double dot = 0;
    for (index_t d = 0; d < head_dim; ++d)
      dot += static_cast<double>(w(d)) * static_cast<double>(grad[d]) * static_cast<double>(from[d]);
    const T back = static_cast<T>(dot / static_cast<double>(head_dim)) * r * r;
    for (index_t d = 0; d < head_dim; ++d) {
      if (dw) (*dw)(d) += grad[d] * from[d] * r;
      grad[d] = r * (w(d) * grad[d] - from[d] * back);
    }
  });
}

template void head_norm(TensorView<const float, 4>, const Tensor<float, 1>&, double, TensorView<float, 4>);
template void head_norm(TensorView<const double, 4>, const Tensor<double, 1>&, double, TensorView<double, 4>);
template void head_norm_backward(TensorView<const float, 4>, const Tensor<float, 1>&, double, TensorView<float, 4>,
                                 Tensor<float, 1>*);
template void head_norm_backward(TensorView<const double, 4>, const Tensor<double, 1>&, double, TensorView<double, 4>,
                                 Tensor<double, 1>*);

}  // namespace multihead::nn
