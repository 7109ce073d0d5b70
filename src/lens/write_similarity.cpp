#include "multihead/lens/write_similarity.hpp"

#include <algorithm>
#include <cmath>

#include "core/require.hpp"
#include "lens/moments.hpp"
#include "multihead/matmul.hpp"

namespace multihead::lens {
namespace {

constexpr const char* kFunction = "write_similarity";

/// A covariance below this share of the second moment is rounding: the write does not vary.
constexpr double kConstant = 1e-12;

void check(const LayerWrites& each) {
  const nn::MultiHeadExtents& extents = each.layer.extents();
  const index_t features = extents.num_heads * extents.head_dim_v;
  require(each.products.features() == features, kFunction, "products must be those of the layer's heads",
          {{"features", each.products.features()}, {"expected", features}});
  require(each.products.num_tokens() > 0, kFunction, "products must hold a token",
          {{"num_tokens", each.products.num_tokens()}});
}

/// W_a W_b^T [Fa, Fb]
Matrix weight_products(const Tensor<double, 2>& a, const Tensor<double, 2>& b, Executor* threads) {
  Tensor<double, 2> product({a.shape(0), b.shape(0)});
  matmul(a, b, product, {.threads = threads});
  return to_eigen(product);
}

/// What of a head's write is in both measures with itself.
struct OwnNorms {
  std::vector<Matrix> gram;    // G_h [Dv, Dv]
  std::vector<double> hsic;    // ||O_h^T O_h||_F
  std::vector<double> length;  // ||O_h||_F / sqrt(tokens)
};

/// ||O_i^T O_j||_F^2 = tr(G_i C G_j C^T)
double hsic(const Matrix& gram_i, const Matrix& c, const Matrix& gram_j) {
  return (gram_i * c).cwiseProduct(c * gram_j).sum();
}

OwnNorms own_norms(const LayerWrites& each, const Tensor<double, 2>& weights) {
  const index_t width = each.layer.extents().head_dim_v, num_heads = each.layer.extents().num_heads;
  const auto tokens = static_cast<double>(each.products.num_tokens());
  const Vector mean = mean_of(each.products);
  OwnNorms norms;
  for (index_t h = 0; h < num_heads; ++h) {
    const Matrix w = to_eigen(weights).middleRows(h * width, width);
    norms.gram.emplace_back(w * w.transpose());
    const Matrix moments = to_eigen(each.products.products()).block(h * width, h * width, width, width) / tokens;
    const Vector center = mean.segment(h * width, width);
    const Matrix& gram = norms.gram.back();
    const double all = moments.cwiseProduct(gram).sum();
    const Matrix covariance = moments - center * center.transpose();
    const bool varies = covariance.cwiseProduct(gram).sum() > kConstant * all;
    norms.hsic.push_back(varies ? std::sqrt(std::max(hsic(gram, covariance, gram), 0.0)) : 0);
    norms.length.push_back(std::sqrt(std::max(all, 0.0)));
  }
  return norms;
}

double ratio(double of, double to, double lowest) { return to > 0 ? std::clamp(of / to, lowest, 1.0) : 0; }

}  // namespace

WriteSimilarity write_similarity(const LayerWrites& a, const LayerWrites& b, TensorView<const double, 2> cross,
                                 Executor* threads) {
  check(a), check(b);
  require(a.products.num_tokens() == b.products.num_tokens(), kFunction, "both layers must have seen the same tokens",
          {{"num_tokens", a.products.num_tokens()}, {"others", b.products.num_tokens()}});
  require(
      cross.shape(0) == a.products.features() && cross.shape(1) == b.products.features(), kFunction,
      "cross must be [Fa, Fb]",
      {{"cross", shape_text(cross.shape())}, {"features", a.products.features()}, {"others", b.products.features()}});
  const Tensor<double, 2> w_a = output_matrix(a.layer), w_b = output_matrix(b.layer);
  const OwnNorms own_a = own_norms(a, w_a), own_b = own_norms(b, w_b);
  const Matrix moments = to_eigen(cross) / static_cast<double>(a.products.num_tokens());
  const Matrix covariance = moments - mean_of(a.products) * mean_of(b.products).transpose();
  const Matrix inner =
      moments.cwiseProduct(weight_products(w_a, w_b, threads));  // tr(W_i^T S W_j) = sum(S o W_i W_j^T)
  const index_t rows = a.layer.extents().head_dim_v, columns = b.layer.extents().head_dim_v;
  WriteSimilarity result{.cka = Tensor<double, 2>({a.layer.extents().num_heads, b.layer.extents().num_heads}),
                         .cosine = Tensor<double, 2>({a.layer.extents().num_heads, b.layer.extents().num_heads})};
  for (index_t i = 0; i < result.cka.shape(0); ++i) {
    for (index_t j = 0; j < result.cka.shape(1); ++j) {
      const auto [n, m] = std::pair(static_cast<std::size_t>(i), static_cast<std::size_t>(j));
      const Matrix c = covariance.block(i * rows, j * columns, rows, columns);
      result.cka(i, j) = ratio(hsic(own_a.gram[n], c, own_b.gram[m]), own_a.hsic[n] * own_b.hsic[m], 0);
      result.cosine(i, j) =
          ratio(inner.block(i * rows, j * columns, rows, columns).sum(), own_a.length[n] * own_b.length[m], -1);
    }
  }
  return result;
}

WriteSimilarity write_similarity(const LayerWrites& layer, Executor* threads) {
  check(layer);
  WriteSimilarity result = write_similarity(layer, layer, layer.products.products(), threads);
  for (index_t h = 0; h < result.cka.shape(0); ++h) {  // also of heads that write nothing
    result.cka(h, h) = result.cosine(h, h) = 1;
    for (index_t other = 0; other < h; ++other) {  // symmetric to the last bit
      result.cka(h, other) = result.cka(other, h);
      result.cosine(h, other) = result.cosine(other, h);
    }
  }
  return result;
}

}  // namespace multihead::lens
