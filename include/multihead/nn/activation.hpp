// Element-wise activations.
//
//   relu(x)      = max(x, 0)
//   gelu(x)      = x * Phi(x) = x/2 * (1 + erf(x / sqrt(2)))                          Hendrycks & Gimpel 2016
//   gelu_tanh(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))                  approximation of the same paper
//   silu(x)      = x / (1 + exp(-x))                                                  Elfwing, Uchibe & Doya 2017
#pragma once

#include <cstdint>

#include "multihead/tensor_view.hpp"
#include "multihead/threads.hpp"

namespace multihead::nn {

enum class Activation : std::uint8_t { relu, gelu, gelu_tanh, silu };

/// T is float or double.
/// @param x  [n, features], last axis contiguous
/// @param y  the shape of x, last axis contiguous; overwritten; may be x
/// @throws ShapeError  before anything is written
template <class T>
MULTIHEAD_API void activation_forward(Activation activation, TensorView<const T, 2> x, TensorView<T, 2> y,
                                      Executor* threads = nullptr);

/// dx = dy * activation'(x). The derivative of relu at 0 is 0.
/// @param x   the input of activation_forward
/// @param dx  the shape of x, last axis contiguous; overwritten; may be dy or x
template <class T>
MULTIHEAD_API void activation_backward(Activation activation, TensorView<const T, 2> x, TensorView<const T, 2> dy,
                                       TensorView<T, 2> dx, Executor* threads = nullptr);

}  // namespace multihead::nn
