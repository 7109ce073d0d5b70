// y = (x - mean) / sqrt(variance + epsilon) * weight + bias       mean and variance over the features of a token
#pragma once

#include "multihead/tensor.hpp"
#include "multihead/threads.hpp"

namespace multihead::nn {

/// T is float or double. Mean and variance are computed in double and in two passes, so a large common offset of the
/// features costs no accuracy. Source: Ba, Kiros & Hinton 2016, eq. 3.
template <class T>
struct MULTIHEAD_API LayerNorm {
  Tensor<T, 1> weight;  ///< [features]
  Tensor<T, 1> bias;    ///< [features]
  double epsilon = 1e-5;

  LayerNorm() = default;
  /// Weight 1, bias 0.
  explicit LayerNorm(index_t features, double eps = 1e-5);

  index_t features() const { return weight.shape(0); }

  /// @param x  [n, features], last axis contiguous
  /// @param y  [n, features], last axis contiguous; overwritten; may be x
  /// @throws ShapeError  before anything is written
  void forward(TensorView<const T, 2> x, TensorView<T, 2> y, Executor* threads = nullptr) const;

  /// @param dx         [n, features]; overwritten; absent = not computed; may be dy
  /// @param gradients  added to; null = not computed
  void backward(TensorView<const T, 2> x, TensorView<const T, 2> dy, TensorView<T, 2> dx, LayerNorm* gradients,
                Executor* threads = nullptr) const;

  /// visit(name, tensor) for each parameter, in this order.
  template <class Visit>
  void for_each(Visit&& visit) {
    visit("weight", weight);
    visit("bias", bias);
  }
};

}  // namespace multihead::nn
