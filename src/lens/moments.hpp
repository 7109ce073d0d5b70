// Second moments of head outputs and the output matrix of a layer, as Eigen matrices in f64.
#pragma once

#include <Eigen/Core>
#include <algorithm>

#include "multihead/lens/head_products.hpp"

namespace multihead::lens {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

inline Eigen::Map<const Matrix> to_eigen(TensorView<const double, 2> x) { return {x.data(), x.shape(0), x.shape(1)}; }

inline Tensor<double, 2> to_tensor(const Matrix& x) {
  Tensor<double, 2> result({x.rows(), x.cols()});
  std::copy_n(x.data(), x.size(), result.data());
  return result;
}

/// mean(Z) [F]; 0 without a token.
inline Vector mean_of(const HeadProducts& products) {
  const auto tokens = static_cast<double>(std::max<index_t>(products.num_tokens(), 1));
  return Eigen::Map<const Vector>(products.sums().data(), products.features()) / tokens;
}

/// mean((z - center)^T (z - center)) [F, F]
inline Matrix moments_about(const HeadProducts& products, const Vector& center) {
  const auto tokens = static_cast<double>(std::max<index_t>(products.num_tokens(), 1));
  const Vector mean = mean_of(products);
  return to_eigen(products.products()) / tokens - center * mean.transpose() - mean * center.transpose() +
         center * center.transpose();
}

/// W [F, E_y] = w_o^T
inline Tensor<double, 2> output_matrix(const nn::MultiHeadAttention<float>& layer) {
  const auto& w_o = layer.parameters().w_o;
  auto result = Tensor<double, 2>::uninitialized({w_o.shape(1), w_o.shape(0)});
  for (index_t f = 0; f < result.shape(0); ++f) {
    for (index_t e = 0; e < result.shape(1); ++e) result(f, e) = w_o(e, f);
  }
  return result;
}

}  // namespace multihead::lens
