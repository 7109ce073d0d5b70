// Checks of the arguments of MultiHeadAttention, before anything is written.
#pragma once

#include "multihead/nn/multi_head_attention.hpp"

namespace multihead::nn {

/// The input with absent views replaced: x_k by x_q, x_v by x_k.
template <class T>
MultiHeadInput<T> complete(const MultiHeadInput<T>& input, const MultiHeadOptions<T>& options);

template <class T>
void check_forward(const MultiHeadAttention<T>& layer, const MultiHeadInput<T>& input, const MultiHeadOutput<T>& output,
                   const MultiHeadOptions<T>& options);

template <class T>
void check_fill(const MultiHeadAttention<T>& layer, TensorView<const T, 3> x_k, TensorView<const T, 3> x_v,
                const KvCache& cache, const MultiHeadOptions<T>& options);

template <class T>
void check_backward(const MultiHeadAttention<T>& layer, const MultiHeadInput<T>& input,
                    const MultiHeadActivations<T>& activations, TensorView<const T, 3> dy,
                    const MultiHeadGradients<T>& gradients, const MultiHeadOptions<T>& options);

}  // namespace multihead::nn
