// RMS norm of each head of each token (Zhang & Sennrich 2019, eq. 4):
//
//   y[d] = w[d] * x[d] * r        r = 1 / sqrt(mean of x[d]^2 + epsilon)        d < D
#pragma once

#include "multihead/tensor.hpp"
#include "multihead/tensor_view.hpp"

namespace multihead::nn {

/// x, y [B, S, H, D] with contiguous last axes; y may be x. w [D].
template <class T>
void head_norm(TensorView<const T, 4> x, const Tensor<T, 1>& w, double epsilon, TensorView<T, 4> y);

/// Replaces dy by dx in place. dw [D] is added to unless it is null.
template <class T>
void head_norm_backward(TensorView<const T, 4> x, const Tensor<T, 1>& w, double epsilon, TensorView<T, 4> dy,
                        Tensor<T, 1>* dw);

}  // namespace multihead::nn
