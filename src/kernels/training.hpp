// What training does to rows of f32 beside products and attention, with SIMD.
#pragma once

#include "multihead/types.hpp"

namespace multihead::kernels {

struct RowStatistics {
  float max;
  double sum_exp;  ///< of exp(x - max)
  double sum;      ///< of x
};

struct TrainingTable {
  RowStatistics (*row_statistics)(const float* x, index_t n);
  /// x = exp(x - max) * scale - shift
  void (*softmax_gradient)(float* x, index_t n, float max, float scale, float shift);
  /// With xhat = (x - mean) / sqrt(variance + epsilon) and g = dy * weight:
  /// dx = (g - mean(g) - xhat * mean(g * xhat)) / sqrt(variance + epsilon), left out where dx is null;
  /// dweight += dy * xhat and dbias += dy, left out where dweight is null. dx may be dy.
  void (*layer_norm_backward)(const float* x, const float* weight, const float* dy, double epsilon, float* dx,
                              float* dweight, float* dbias, index_t n);
  /// dx = x > 0 ? dy : 0; dx may be dy or x.
  void (*relu_backward)(const float* x, const float* dy, float* dx, index_t n);
  void (*silu)(const float* x, float* y, index_t n);
  void (*silu_backward)(const float* x, const float* dy, float* dx, index_t n);
  /// sums += x
  void (*add_to_double)(const float* x, double* sums, index_t n);
};

/// That of the best target of this CPU.
const TrainingTable& training();

}  // namespace multihead::kernels
