// What training does to rows of f32 beside products and attention, with SIMD.
#pragma once

#include "multihead/types.hpp"

namespace multihead::kernels {

struct RowStatistics {
  float max;
  double sum_exp;  ///< of exp(x - max)
  double sum;      ///< of x
};

/// One step of Adam in the numbers that are equal for all elements (nn/adam.hpp has the formula). 1 - beta is given
/// beside beta: taken from a beta that is rounded to f32 it would be wrong by up to 3e-5 of itself.
struct AdamStep {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float gradient_scale;
  float decay;              ///< 1 - rate * weight_decay
  float step;               ///< rate / (1 - beta1^t)
  float inverse_root_bias;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon;
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
  /// Sum of x^2 in double, in one fixed order on a target.
  double (*sum_of_squares)(const float* x, index_t n);
  /// With g = gradient_scale * gradient: mean and square move towards g and g^2, and
  /// p = decay * p - step * mean / (inverse_root_bias * sqrt(square) + epsilon)
  void (*adam)(const AdamStep& step, const float* gradient, float* p, float* mean, float* square, index_t n);
};

/// That of the best target of this CPU.
const TrainingTable& training();

}  // namespace multihead::kernels
