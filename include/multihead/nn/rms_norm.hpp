// y = x / sqrt(mean(x^2) + epsilon) * weight       the mean over the features of a token
#pragma once

#include "multihead/tensor.hpp"
#include "multihead/threads.hpp"

namespace multihead::nn {

/// T is float or double. The mean is accumulated in double. Source: Zhang & Sennrich 2019, eq. 4.
template <class T>
struct MULTIHEAD_API RmsNorm {
  Tensor<T, 1> weight;  ///< [features]
  double epsilon = 1e-6;

  RmsNorm() = default;
  /// Weight 1.
  explicit RmsNorm(index_t features, double eps = 1e-6);

  index_t features() const { return weight.shape(0); }

  /// @param x  [n, features], last axis contiguous
  /// @param y  [n, features], last axis contiguous; overwritten; may be x
  /// @throws ShapeError  before anything is written
  void forward(TensorView<const T, 2> x, TensorView<T, 2> y, Executor* threads = nullptr) const;

  /// @param dx         [n, features]; overwritten; absent = not computed; may be dy
  /// @param gradients  added to; null = not computed
  void backward(TensorView<const T, 2> x, TensorView<const T, 2> dy, TensorView<T, 2> dx, RmsNorm* gradients,
                Executor* threads = nullptr) const;

  /// visit(name, tensor) for the one parameter.
  template <class Visit>
  void for_each(Visit&& visit) {
    visit("weight", weight);
  }
};

}  // namespace multihead::nn
