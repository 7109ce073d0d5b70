#include "multihead/lens/head_diversity.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "core/require.hpp"
#include "lens/moments.hpp"

namespace multihead::lens {

double effective_heads(TensorView<const double, 2> cka) {
  require(cka.shape(0) == cka.shape(1), "effective_heads", "cka must be square", {{"cka", shape_text(cka.shape())}});
  if (cka.shape(0) == 0) return 0;
  Matrix kernel(cka.shape(0), cka.shape(0));
  for (index_t i = 0; i < cka.shape(0); ++i) {
    for (index_t j = 0; j < cka.shape(0); ++j) kernel(i, j) = cka(i, j) / static_cast<double>(cka.shape(0));
  }
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(kernel, Eigen::EigenvaluesOnly);
  double entropy = 0;
  for (const double each : solver.eigenvalues()) {
    if (each > 0) entropy -= each * std::log(each);
  }
  return std::clamp(std::exp(entropy), 1.0, static_cast<double>(cka.shape(0)));
}

std::optional<double> averaging_loss(const HeadProducts& products, index_t num_heads) {
  const index_t features = products.features();
  require(num_heads >= 0 && (num_heads == 0 ? features == 0 : features % num_heads == 0), "averaging_loss",
          "the features must be those of num_heads heads", {{"features", features}, {"num_heads", num_heads}});
  if (num_heads == 0) return std::nullopt;
  const index_t width = features / num_heads;
  const Matrix covariance = moments_about(products, mean_of(products));
  const double total = covariance.trace();
  if (!(total > 1e-12 * (to_eigen(products.products()).trace() / static_cast<double>(products.num_tokens())))) {
    return std::nullopt;
  }
  // The covariance of Z with the mean [F, Dv], and of the mean with itself [Dv, Dv].
  Matrix with_mean = Matrix::Zero(features, width), of_mean = Matrix::Zero(width, width);
  for (index_t h = 0; h < num_heads; ++h) with_mean += covariance.middleCols(h * width, width);
  with_mean /= static_cast<double>(num_heads);
  for (index_t h = 0; h < num_heads; ++h) of_mean += with_mean.middleRows(h * width, width);
  of_mean /= static_cast<double>(num_heads);
  of_mean.diagonal().array() += std::max(1e-6 * of_mean.trace() / static_cast<double>(width), 1e-300);
  const Matrix kept = of_mean.llt().solve(with_mean.transpose());  // [Dv, F]
  return std::clamp(1 - kept.cwiseProduct(with_mean.transpose()).sum() / total, 0.0, 1.0);
}

}  // namespace multihead::lens
