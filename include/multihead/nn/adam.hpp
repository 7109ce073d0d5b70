// Adam with decoupled weight decay, fused: one pass over a tensor and its two moments, each of shape [n].
//
//   g = gradient_scale * gradient                           t = 1, 2, .. the number of the step
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g^2
//   p = (1 - rate * weight_decay) * p - rate * m' / (sqrt(v') + epsilon)
//                                                           m' = m / (1 - beta1^t), v' = v / (1 - beta2^t)
//
// Sources: Kingma & Ba 2015, Algorithm 1; the decay: Loshchilov & Hutter 2019, Algorithm 2. This is the form of
// PyTorch's AdamW, where epsilon is added to the corrected root; weight_decay = 0 makes it Adam.
#pragma once

#include "multihead/tensor_view.hpp"
#include "multihead/threads.hpp"

namespace multihead::nn {

struct AdamOptions {
  double beta1 = 0.9;         ///< in [0, 1)
  double beta2 = 0.98;        ///< in [0, 1)
  double epsilon = 1e-8;      ///< at least 1e-30
  double weight_decay = 0.0;  ///< at least 0; usually 0 for biases, the weights of norms, and embeddings
};

/// What changes from step to step.
struct AdamStepOptions {
  index_t step = 1;             ///< t, from 1
  double rate = 1e-3;           ///< finite and at least 0; rate * weight_decay at most 1
  double gradient_scale = 1.0;  ///< finite; for example clip_scale(..) / number of targets
};

/// A tensor that is trained, flat. T is float or double. No two of the four may overlap.
template <class T>
struct AdamTensors {
  TensorView<T, 1> parameter;        ///< [n], contiguous, as are the others
  TensorView<const T, 1> gradient;   ///< [n]
  TensorView<T, 1> mean;             ///< [n], m; 0 before the first step
  TensorView<T, 1> mean_of_squares;  ///< [n], v; 0 before the first step
};

/// The bias corrections are computed in double, the rest in T. The same bits for any number of threads.
/// @throws ShapeError  before anything is written
/// Cost    reads four and writes three numbers an element: bound by memory.
template <class T>
MULTIHEAD_API void adam_step(const AdamTensors<T>& tensors, const AdamOptions& options, const AdamStepOptions& step,
                             Executor* threads = nullptr);

/// Sum of x[i]^2 in double, for the norm of a gradient. The same bits for any number of threads.
/// @param x  [n], contiguous
/// @throws ShapeError  if x is not contiguous
template <class T>
MULTIHEAD_API double sum_of_squares(TensorView<const T, 1> x, Executor* threads = nullptr);

/// min(1, max_norm / (norm + 1e-6)), norm = sqrt(sum_of_squares over all gradients): what all gradients are multiplied
/// with so that their norm is at most max_norm. Source: Pascanu et al. 2013, Algorithm 1; 1e-6 as in PyTorch.
/// @throws ShapeError  if max_norm is not above 0
/// @throws Error       if the sum is not finite or negative: the gradients hold NaN or infinity
MULTIHEAD_API double clip_scale(double sum_of_squares, double max_norm);

}  // namespace multihead::nn
