#include "multihead/lens/head_removal.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>

#include "core/require.hpp"
#include "lens/moments.hpp"

namespace multihead::lens {
namespace {

constexpr const char* kFunction = "HeadRemoval";

// Indices of the features of some heads.
std::vector<Eigen::Index> features_of(std::span<const index_t> heads, index_t width) {
  std::vector<Eigen::Index> features;
  for (const index_t h : heads) {
    for (index_t d = 0; d < width; ++d) features.push_back(h * width + d);
  }
  return features;
}

}  // namespace

struct HeadRemoval::Impl {
  index_t num_heads, width;  // H, Dv
  bool has_bias;
  Matrix weights;      // W [F, E_y]
  Vector bias, mean;   // b_o [E_y], mean(Z) [F]
  Matrix moments;      // Z^T Z / tokens
  Matrix covariance;   // the same about the mean where there is a b_o to take it
  Matrix writes;       // W W^T
  double lambda;       // added to the diagonal of the covariance by fold
  Matrix head_writes;  // [H, H] mean over tokens of <O_i, O_j>

  struct Split {
    std::vector<index_t> removed, kept;  // ascending
    std::vector<Eigen::Index> features, kept_features;
  };

  Split split(std::span<const index_t> heads) const {
    Split split{.removed = {heads.begin(), heads.end()}, .kept = {}, .features = {}, .kept_features = {}};
    std::ranges::sort(split.removed);
    const bool fits = std::ranges::adjacent_find(split.removed) == split.removed.end() &&
                      (split.removed.empty() || (split.removed.front() >= 0 && split.removed.back() < num_heads));
    require(fits, kFunction, "removed heads must be distinct heads of the layer",
            {{"removed", shape_text(split.removed)}, {"num_heads", num_heads}});
    for (index_t h = 0; h < num_heads; ++h) {
      if (!std::ranges::binary_search(split.removed, h)) split.kept.push_back(h);
    }
    split.features = features_of(split.removed, width);
    split.kept_features = features_of(split.kept, width);
    return split;
  }

  void require_bias(Compensation compensation) const {
    require(has_bias || compensation != Compensation::mean, kFunction, "the layer must have b_o for the mean", {},
            "take fold, which can do without");
  }

  // a - 1: how far the factors of the heads that stay are from 1. A head that writes nothing keeps its factor.
  Vector factors(const Split& s) const {
    const auto kept = [&](const auto& m, const auto& columns) { return Matrix(m(s.kept, columns)); };
    Matrix system = kept(head_writes, s.kept);
    const double tiny = 1e-12 * std::max(head_writes.trace(), 1e-300);
    system.diagonal().array() += tiny;
    return system.ldlt().solve(kept(head_writes, s.removed).rowwise().sum());
  }

  Matrix across(const Split& s) const {  // C_KR W_R [K*Dv, E_y]
    return covariance(s.kept_features, s.features) * weights(s.features, Eigen::all);
  }

  Matrix fold(const Split& s, const Matrix& of_removed) const {  // D [K*Dv, E_y]
    Matrix system = covariance(s.kept_features, s.kept_features);
    system.diagonal().array() += lambda;
    return system.llt().solve(of_removed);
  }
};

HeadRemoval::HeadRemoval(const nn::MultiHeadAttention<float>& layer, const HeadProducts& products, double ridge) {
  const nn::MultiHeadExtents& extents = layer.extents();
  const index_t features = extents.num_heads * extents.head_dim_v;
  require(products.features() == features, kFunction, "products must be those of the layer's heads",
          {{"features", products.features()}, {"expected", features}});
  require(products.num_tokens() > 0, kFunction, "products must hold a token", {{"num_tokens", products.num_tokens()}});
  require(ridge > 0, kFunction, "ridge must be above 0", {{"ridge", ridge}});

  auto impl = std::make_unique<Impl>();
  const nn::MultiHeadParameters<float>& p = layer.parameters();
  impl->num_heads = extents.num_heads;
  impl->width = extents.head_dim_v;
  impl->has_bias = p.b_o.data() != nullptr;
  using Stored = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  impl->weights = Eigen::Map<const Stored>(p.w_o.data(), extents.y_width, features).cast<double>().transpose();
  if (impl->has_bias) impl->bias = Eigen::Map<const Eigen::VectorXf>(p.b_o.data(), extents.y_width).cast<double>();
  const double tokens = static_cast<double>(products.num_tokens());
  impl->moments = to_eigen(products.products()) / tokens;
  impl->mean = mean_of(products);
  impl->covariance = impl->moments;
  if (impl->has_bias) impl->covariance -= impl->mean * impl->mean.transpose();
  impl->writes = impl->weights * impl->weights.transpose();
  const double scale = features > 0 ? impl->covariance.trace() / static_cast<double>(features) : 0;
  impl->lambda = std::max(ridge * scale, 1e-300);
  impl->head_writes = Matrix(impl->num_heads, impl->num_heads);
  const Matrix inner = impl->moments.cwiseProduct(impl->writes);  // tr(A B) = sum(A o B), both symmetric
  for (index_t i = 0; i < impl->num_heads; ++i) {
    for (index_t j = 0; j < impl->num_heads; ++j) {
      const index_t w = impl->width;
      impl->head_writes(i, j) = inner.block(i * w, j * w, w, w).sum();
    }
  }
  impl_ = std::move(impl);
}

HeadRemoval::~HeadRemoval() = default;
HeadRemoval::HeadRemoval(HeadRemoval&&) noexcept = default;
HeadRemoval& HeadRemoval::operator=(HeadRemoval&&) noexcept = default;

double HeadRemoval::error(std::span<const index_t> removed, Compensation compensation) const {
  const Impl::Split s = impl_->split(removed);
  impl_->require_bias(compensation);
  if (s.removed.empty()) return 0;
  const auto lost = [&](const Matrix& z) {  // tr(W_R^T z_RR W_R)
    return Matrix(z(s.features, s.features)).cwiseProduct(Matrix(impl_->writes(s.features, s.features))).sum();
  };
  switch (compensation) {
    case Compensation::none: return lost(impl_->moments);
    case Compensation::mean: return lost(impl_->covariance);
    case Compensation::scale: {
      const Matrix& g = impl_->head_writes;
      const double all = Matrix(g(s.removed, s.removed)).sum();
      const Vector with_kept = Matrix(g(s.kept, s.removed)).rowwise().sum();
      return std::max(all - (s.kept.empty() ? 0.0 : impl_->factors(s).dot(with_kept)), 0.0);
    }
    case Compensation::fold: break;
  }
  if (s.kept.empty()) return lost(impl_->covariance);
  // lost - 2 <D, A> + <D, C_KK D> with A = C_KR W_R and C_KK D = A - lambda D
  const Matrix across = impl_->across(s), more = impl_->fold(s, across);
  return std::max(lost(impl_->covariance) - more.cwiseProduct(across).sum() - impl_->lambda * more.squaredNorm(), 0.0);
}

double HeadRemoval::variance() const { return impl_->covariance.cwiseProduct(impl_->writes).sum(); }

OutputWeights HeadRemoval::weights(std::span<const index_t> removed, Compensation compensation) const {
  const Impl::Split s = impl_->split(removed);
  impl_->require_bias(compensation);
  Matrix left = impl_->weights(s.kept_features, Eigen::all);
  Vector bias = impl_->bias;
  const Matrix gone = impl_->weights(s.features, Eigen::all);
  const bool moves_mean = impl_->has_bias && (compensation == Compensation::mean || compensation == Compensation::fold);
  if (moves_mean) bias += gone.transpose() * impl_->mean(s.features);
  if (compensation == Compensation::scale && !s.kept.empty() && !s.removed.empty()) {
    const Vector more = impl_->factors(s);
    for (Eigen::Index k = 0; k < more.size(); ++k) left.middleRows(k * impl_->width, impl_->width) *= 1 + more[k];
  }
  if (compensation == Compensation::fold && !s.kept.empty() && !s.removed.empty()) {
    const Matrix more = impl_->fold(s, impl_->across(s));
    left += more;
    if (moves_mean) bias -= more.transpose() * impl_->mean(s.kept_features);
  }
  OutputWeights result{.w_o = Tensor<float, 2>({left.cols(), left.rows()}), .b_o = {}};
  for (Eigen::Index f = 0; f < left.rows(); ++f) {
    for (Eigen::Index e = 0; e < left.cols(); ++e) result.w_o(e, f) = static_cast<float>(left(f, e));
  }
  if (impl_->has_bias) result.b_o = Tensor<float, 1>({bias.size()});
  for (Eigen::Index e = 0; e < bias.size(); ++e) result.b_o(e) = static_cast<float>(bias[e]);
  return result;
}

}  // namespace multihead::lens
