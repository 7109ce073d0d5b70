#include "multihead/lens/vector_agreement.hpp"

#include <Eigen/Core>
#include <algorithm>

#include "core/require.hpp"
#include "multihead/lens/rank_correlation.hpp"

namespace multihead::lens {
namespace {

using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Rows of length 1; zero rows stay.
Rows directions(TensorView<const float, 2> x) {
  Rows rows(x.shape(0), x.shape(1));
  for (index_t n = 0; n < x.shape(0); ++n) {
    for (index_t e = 0; e < x.shape(1); ++e) rows(n, e) = static_cast<double>(x(n, e));
    const double length = rows.row(n).norm();
    if (length > 0) rows.row(n) /= length;
  }
  return rows;
}

std::vector<double> pairs(const Rows& cosines) {
  std::vector<double> upper;
  for (Eigen::Index i = 0; i < cosines.rows(); ++i) {
    for (Eigen::Index j = i + 1; j < cosines.cols(); ++j) upper.push_back(cosines(i, j));
  }
  return upper;
}

Eigen::Index nearest(const Rows& cosines, Eigen::Index i) {
  Eigen::Index best = i == 0 ? 1 : 0;
  for (Eigen::Index j = 0; j < cosines.cols(); ++j) {
    if (j != i && cosines(i, j) > cosines(i, best)) best = j;
  }
  return best;
}

}  // namespace

Tensor<float, 2> sentence_vectors(const Encoder& encoder, const SentencePooling& pooling,
                                  std::span<const std::vector<index_t>> sequences, Executor* threads) {
  constexpr std::size_t kBatch = 32;
  const index_t width = encoder.config().d_model;
  Tensor<float, 2> all({static_cast<index_t>(sequences.size()), width});
  for (std::size_t begin = 0; begin < sequences.size(); begin += kBatch) {
    const TokenBatch batch =
        pad_batch(sequences.subspan(begin, std::min(kBatch, sequences.size() - begin)), encoder.config().pad_token_id);
    const EncoderOutput output = encoder.forward(batch.input(), {.threads = threads});
    const Tensor<float, 2> vectors = pool(output.last_hidden, batch.lengths, pooling);
    std::copy_n(vectors.data(), vectors.size(), all.data() + static_cast<index_t>(begin) * width);
  }
  return all;
}

VectorAgreement compare_vectors(TensorView<const float, 2> a, TensorView<const float, 2> b) {
  require(a.shape() == b.shape() && a.shape(0) > 0, "compare_vectors", "a and b must be [N, E], N above 0",
          {{"a", shape_text(a.shape())}, {"b", shape_text(b.shape())}});
  const Rows x = directions(a), y = directions(b);
  const Rows of_x = x * x.transpose(), of_y = y * y.transpose();
  VectorAgreement agreement{.loss = 1 - x.cwiseProduct(y).rowwise().sum().mean()};
  agreement.ranking = rank_correlation(pairs(of_x), pairs(of_y));
  if (x.rows() < 2) return agreement;
  Eigen::Index same = 0;
  for (Eigen::Index i = 0; i < x.rows(); ++i) same += nearest(of_x, i) == nearest(of_y, i) ? 1 : 0;
  agreement.nearest = static_cast<double>(same) / static_cast<double>(x.rows());
  return agreement;
}

}  // namespace multihead::lens
