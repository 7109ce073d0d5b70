// Linear layer: y = x weight^T + bias
#pragma once

#include "multihead/packed_matrix.hpp"
#include "multihead/tensor.hpp"
#include "multihead/threads.hpp"

namespace multihead::nn {

/// The parameters of the layer; the same type holds their gradients. T is float or double.
template <class T>
struct MULTIHEAD_API Linear {
  Tensor<T, 2> weight;            ///< [out_features, in_features]
  Tensor<T, 1> bias;              ///< [out_features]; without data if the layer has no bias
  PackedMatrix<T> packed_weight;  ///< unless it is empty, forward reads this copy instead of weight

  Linear() = default;
  /// All parameters are zero.
  Linear(index_t in_features, index_t out_features, bool with_bias = true);

  index_t in_features() const { return weight.shape(1); }
  index_t out_features() const { return weight.shape(0); }

  /// Fills packed_weight: forward is faster and bit-identical. Call it again, or clear it, when weight has changed.
  void pack_weights(Executor* threads = nullptr) { packed_weight = PackedMatrix<T>(weight.view(), threads); }

  /// @param x  [n, in_features], any strides
  /// @param y  [n, out_features], last axis contiguous; overwritten
  /// @throws ShapeError  before anything is written
  void forward(TensorView<const T, 2> x, TensorView<T, 2> y, Executor* threads = nullptr) const;

  /// @param dy         [n, out_features]
  /// @param dx         [n, in_features], last axis contiguous; overwritten; absent = not computed
  /// @param gradients  added to; null = not computed
  void backward(TensorView<const T, 2> x, TensorView<const T, 2> dy, TensorView<T, 2> dx, Linear* gradients,
                Executor* threads = nullptr) const;

  /// visit(name, tensor) for each parameter that the layer has, in this order.
  template <class Visit>
  void for_each(Visit&& visit) {
    visit("weight", weight);
    if (bias.data()) visit("bias", bias);
  }
};

}  // namespace multihead::nn
