// y = down(dropout(activation(gate(x)) * up(x))), each token by itself
#pragma once

#include <string>

#include "multihead/nn/activation.hpp"
#include "multihead/nn/dropout.hpp"
#include "multihead/nn/linear.hpp"

namespace multihead::nn {

/// What a forward leaves for backward. Reused when the extents stay the same.
template <class T>
struct GatedFeedForwardActivations {
  Tensor<T, 2> gate;  ///< [n, hidden_features] gate(x) before the activation
  Tensor<T, 2> up;    ///< [n, hidden_features] up(x)
};

/// The gated network of Shazeer 2020 ("GLU Variants Improve Transformer"), eq. 6: SwiGLU with silu. T is float or
/// double. It has three matrices: with 2/3 of the hidden features it has the parameters of a FeedForward.
template <class T>
struct MULTIHEAD_API GatedFeedForward {
  Linear<T> gate;  ///< [hidden_features, features]
  Linear<T> up;    ///< [hidden_features, features]
  Linear<T> down;  ///< [features, hidden_features]
  Activation activation = Activation::silu;

  GatedFeedForward() = default;
  /// Zeros.
  GatedFeedForward(index_t features, index_t hidden_features, Activation act = Activation::silu);

  index_t features() const { return up.in_features(); }
  index_t hidden_features() const { return up.out_features(); }

  void pack_weights(Executor* threads = nullptr) {
    gate.pack_weights(threads), up.pack_weights(threads), down.pack_weights(threads);
  }

  /// @param x  [n, features], last axis contiguous
  /// @param y  [n, features], last axis contiguous; overwritten; must not overlap x
  /// @param activations  filled for backward; null = not kept
  /// @param dropout      of the rows of x, on the product of gate and up
  /// @throws ShapeError  before anything is written
  /// Memory  three times n * hidden_features.
  void forward(TensorView<const T, 2> x, TensorView<T, 2> y, Executor* threads = nullptr,
               GatedFeedForwardActivations<T>* activations = nullptr, const RowDropout& dropout = {}) const;

  /// @param activations  as filled by the forward of this x, with the same dropout
  /// @param dx           [n, features]; overwritten; absent = not computed
  /// @param gradients    added to; null = not computed
  void backward(TensorView<const T, 2> x, const GatedFeedForwardActivations<T>& activations, TensorView<const T, 2> dy,
                TensorView<T, 2> dx, GatedFeedForward* gradients, Executor* threads = nullptr,
                const RowDropout& dropout = {}) const;

  /// visit(name, tensor) for each parameter, in this order.
  template <class Visit>
  void for_each(Visit&& visit) {
    const auto inside = [&](const char* layer) {
      return [&visit, layer](const char* name, auto& tensor) { visit(std::string(layer) + "." + name, tensor); };
    };
    gate.for_each(inside("gate"));
    up.for_each(inside("up"));
    down.for_each(inside("down"));
  }
};

}  // namespace multihead::nn
