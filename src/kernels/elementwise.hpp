// What is done to single numbers or rows of f32, with SIMD: the activations and the layer norm.
#pragma once

#include "multihead/types.hpp"

namespace multihead::kernels {

/// Each reads x[0, n) and writes y[0, n); y may be x.
struct ElementwiseTable {
  void (*relu)(const float* x, float* y, index_t n);
  void (*gelu)(const float* x, float* y, index_t n);
  void (*gelu_tanh)(const float* x, float* y, index_t n);
  /// y = (x - mean) / sqrt(variance + epsilon) * weight + bias; mean and variance in double, in two passes.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, double epsilon, float* y, index_t n);
};

/// That of the best target of this CPU.
const ElementwiseTable& elementwise();

}  // namespace multihead::kernels
