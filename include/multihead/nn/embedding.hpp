// Embedding: y[n] = weight[ids[n]]
#pragma once

#include "multihead/tensor.hpp"

namespace multihead::nn {

/// A table of learned vectors, one per id. T is float or double.
template <class T>
struct MULTIHEAD_API Embedding {
  Tensor<T, 2> weight;  ///< [num_rows, features]

  Embedding() = default;
  /// Weights are zero.
  Embedding(index_t num_rows, index_t features);

  index_t num_rows() const { return weight.shape(0); }
  index_t features() const { return weight.shape(1); }

  /// @param ids  [n], each in [0, num_rows)
  /// @param y    [n, features], last axis contiguous; overwritten; with `accumulate` added to
  /// @throws ShapeError  before anything is written; the text names the first id that is out of range
  void forward(TensorView<const index_t, 1> ids, TensorView<T, 2> y, bool accumulate = false) const;

  /// @param dy         [n, features]
  /// @param gradients  dy[n] is added to row ids[n], in the order of n
  void backward(TensorView<const index_t, 1> ids, TensorView<const T, 2> dy, Embedding& gradients) const;

  /// visit(name, tensor) for the one parameter.
  template <class Visit>
  void for_each(Visit&& visit) {
    visit("weight", weight);
  }
};

}  // namespace multihead::nn
