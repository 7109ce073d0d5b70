#include "multihead/lens/replaceability.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <numeric>

#include "core/require.hpp"
#include "lens/moments.hpp"

namespace multihead::lens {
namespace {

/// The heads that are left, side by side.
class HeadsLeft {
 public:
  HeadsLeft(const nn::MultiHeadAttention<float>& layer, const HeadProducts& fit, const HeadProducts& held_out)
      : width_(layer.extents().head_dim_v), heads_(static_cast<std::size_t>(layer.extents().num_heads)) {
    std::iota(heads_.begin(), heads_.end(), index_t{0});
    const bool has_bias = layer.parameters().b_o.data() != nullptr;
    const Vector center = has_bias ? mean_of(fit) : Vector::Zero(fit.features());
    Matrix covariance = moments_about(fit, center);
    const double scale = covariance.trace() / static_cast<double>(std::max<index_t>(fit.features(), 1));
    covariance.diagonal().array() += std::max(1e-6 * scale, 1e-150);
    precision_ = covariance.llt().solve(Matrix::Identity(covariance.rows(), covariance.cols()));
    held_out_ = moments_about(held_out, center);
    const Matrix moments = moments_about(held_out, Vector::Zero(held_out.features()));
    const Tensor<double, 2> weights = output_matrix(layer);
    for (const index_t h : heads_) {
      const Matrix w = to_eigen(weights).middleRows(h * width_, width_);
      grams_.emplace_back(w * w.transpose());
      const auto written = [&](const Matrix& z) { return block(z, h, h).cwiseProduct(grams_.back()).sum(); };
      const double variance = written(held_out_);
      variances_.push_back(variance > 1e-12 * written(moments) ? variance : 0);
    }
  }

  std::size_t size() const { return heads_.size(); }
  index_t head(std::size_t at) const { return heads_[at]; }

  double r2(std::size_t at) const {
    const auto h = static_cast<std::size_t>(heads_[at]);
    if (variances_[h] <= 0) return 1;
    const Matrix residual = own(at).llt().solve(rows(at));  // T [Dv, F']
    return 1 - Matrix(residual * held_out_ * residual.transpose()).cwiseProduct(grams_[h]).sum() / variances_[h];
  }

  void remove(std::size_t at) {
    const Matrix beside = rows(at);
    precision_ -= beside.transpose() * own(at).llt().solve(beside);
    std::vector<Eigen::Index> left;
    for (std::size_t n = 0; n < heads_.size(); ++n) {
      for (index_t d = 0; n != at && d < width_; ++d) left.push_back(static_cast<index_t>(n) * width_ + d);
    }
    precision_ = Matrix(precision_(left, left));
    held_out_ = Matrix(held_out_(left, left));
    heads_.erase(heads_.begin() + static_cast<std::ptrdiff_t>(at));
  }

 private:
  Matrix block(const Matrix& z, index_t i, index_t j) const { return z.block(i * width_, j * width_, width_, width_); }
  Matrix own(std::size_t at) const { return block(precision_, static_cast<index_t>(at), static_cast<index_t>(at)); }
  Matrix rows(std::size_t at) const { return precision_.middleRows(static_cast<index_t>(at) * width_, width_); }

  index_t width_;
  std::vector<index_t> heads_;
  Matrix precision_, held_out_;    // of the heads that are left [F', F']
  std::vector<Matrix> grams_;      // of all heads: W W^T [Dv, Dv]
  std::vector<double> variances_;  // of all heads: mean of ||O - c||^2 on the held-out text
};

}  // namespace

Replaceability replaceability(const nn::MultiHeadAttention<float>& layer, const HeadProducts& fit,
                              const HeadProducts& held_out) {
  const index_t features = layer.extents().num_heads * layer.extents().head_dim_v;
  for (const HeadProducts* each : {&fit, &held_out}) {
    require(each->features() == features, "replaceability", "products must be those of the layer's heads",
            {{"features", each->features()}, {"expected", features}});
    require(each->num_tokens() > 0, "replaceability", "both products must hold a token",
            {{"fit", fit.num_tokens()}, {"held_out", held_out.num_tokens()}});
  }
  Replaceability result;
  if (features == 0) return result;
  HeadsLeft left(layer, fit, held_out);
  while (left.size() > 0) {
    std::vector<double> r2(left.size());
    for (std::size_t n = 0; n < left.size(); ++n) r2[n] = left.r2(n);
    if (result.order.empty()) result.r2 = r2;
    const auto best = static_cast<std::size_t>(std::ranges::max_element(r2) - r2.begin());
    result.order.push_back({.head = left.head(best), .r2 = r2[best]});
    left.remove(best);
  }
  return result;
}

}  // namespace multihead::lens
