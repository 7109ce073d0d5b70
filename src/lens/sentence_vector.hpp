// The vector of a sentence at length 1, and its gradient.
//
//   u = pool(x)   e = u / |u|        d<r, e> / du = (r - <r, e> e) / |u|
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "multihead/sentence_embedding.hpp"

namespace multihead::lens {

class SentenceVector {
 public:
  /// @param hidden  [T, E] of the tokens of one sentence; must outlive the object
  SentenceVector(TensorView<const float, 2> hidden, const SentencePooling& pooling)
      : hidden_(hidden), pooling_(pooling.pooling), unit_(static_cast<std::size_t>(hidden.shape(1))) {
    const TensorView<const float, 3> batch(hidden.data(), {1, hidden.shape(0), hidden.shape(1)});
    const Tensor<float, 2> pooled = pool(batch, {}, {.pooling = pooling.pooling});
    double squares = 0;
    for (index_t e = 0; e < pooled.size(); ++e) squares += static_cast<double>(pooled(0, e)) * pooled(0, e);
    length_ = std::sqrt(squares);
    for (std::size_t e = 0; e < unit_.size() && length_ > 0; ++e) unit_[e] = pooled.data()[e] / length_;
  }

  /// 1 - <e, e'>, as |e - e'|^2 / 2: exactly 0 for the same vector.
  double distance(const SentenceVector& other) const {
    double squares = 0;
    for (std::size_t e = 0; e < unit_.size(); ++e) squares += std::pow(unit_[e] - other.unit_[e], 2);
    return squares / 2;
  }

  /// d [T, E]: the gradient of <r, e>; 0 where e is 0.
  void backward(const std::vector<double>& r, TensorView<float, 2> d) const {
    double along = 0;
    for (std::size_t e = 0; e < unit_.size(); ++e) along += r[e] * unit_[e];
    const index_t tokens = hidden_.shape(0);
    for (index_t e = 0; e < hidden_.shape(1); ++e) {
      const auto n = static_cast<std::size_t>(e);
      const double du = length_ > 0 ? (r[n] - along * unit_[n]) / length_ : 0;
      index_t from = 0;  // the token that the feature comes from, but for the mean
      for (index_t i = 1; i < tokens && pooling_ == Pooling::max; ++i)
        from = hidden_(i, e) > hidden_(from, e) ? i : from;
      for (index_t i = 0; i < tokens; ++i) {
        const double share = pooling_ == Pooling::mean ? 1 / static_cast<double>(tokens) : i == from ? 1 : 0;
        d(i, e) = static_cast<float>(share * du);
      }
    }
  }

 private:
  TensorView<const float, 2> hidden_;
  Pooling pooling_;
  std::vector<double> unit_;  // [E]
  double length_ = 0;
};

}  // namespace multihead::lens
