// Feed-forward network: y = down(dropout(activation(up(x)))), for each token independently.
#pragma once

#include <string>

#include "multihead/nn/activation.hpp"
#include "multihead/nn/dropout.hpp"
#include "multihead/nn/linear.hpp"

namespace multihead::nn {

/// What forward stores for backward. The memory is reused if the extents do not change.
template <class T>
struct FeedForwardActivations {
  Tensor<T, 2> hidden;  ///< [n, hidden_features] before the activation
};

/// The position-wise network of Vaswani et al. 2017, section 3.3. T is float or double.
template <class T>
struct MULTIHEAD_API FeedForward {
  Linear<T> up;    ///< [hidden_features, features]
  Linear<T> down;  ///< [features, hidden_features]
  Activation activation = Activation::relu;

  FeedForward() = default;
  /// All parameters are zero.
  FeedForward(index_t features, index_t hidden_features, Activation act = Activation::relu);

  index_t features() const { return up.in_features(); }
  index_t hidden_features() const { return up.out_features(); }

  void pack_weights(Executor* threads = nullptr) { up.pack_weights(threads), down.pack_weights(threads); }

  /// @param x  [n, features], last axis contiguous
  /// @param y  [n, features], last axis contiguous; overwritten; must not overlap x
  /// @param dropout  of the rows of x, on what the activation gives; needs `activations` unless its probability is 0
  /// @throws ShapeError  before anything is written
  /// Memory  hidden_features numbers for each token of a block; for each token of x if `activations` are stored.
  void forward(TensorView<const T, 2> x, TensorView<T, 2> y, Executor* threads = nullptr,
               FeedForwardActivations<T>* activations = nullptr, const RowDropout& dropout = {}) const;

  /// @param activations  as filled by the forward of this x, with the same dropout
  /// @param dx           [n, features]; overwritten; absent = not computed
  /// @param gradients    added to; null = not computed
  void backward(TensorView<const T, 2> x, const FeedForwardActivations<T>& activations, TensorView<const T, 2> dy,
                TensorView<T, 2> dx, FeedForward* gradients, Executor* threads = nullptr,
                const RowDropout& dropout = {}) const;

  /// visit(name, tensor) for each parameter, in this order.
  template <class Visit>
  void for_each(Visit&& visit) {
    const auto inside = [&](const char* layer) {
      return [&visit, layer](const char* name, auto& tensor) { visit(std::string(layer) + "." + name, tensor); };
    };
    up.for_each(inside("up"));
    down.for_each(inside("down"));
  }
};

}  // namespace multihead::nn
