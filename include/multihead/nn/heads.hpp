// Single heads of a layer: the contribution of each to y, and selecting the remaining heads of per-head tensors.
#pragma once

#include "multihead/nn/multi_head_attention.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // ranks and axes are int, those of std::array are not
namespace multihead::nn {

/// The contribution of each head to y:
///
///   contribution[b, i, n, :] = gate[h] * heads[b, i, h, :] w_o[:, columns of h]^T        h = selected[n]
///
/// Their sum over all heads, plus b_o, is y.
///
/// @param heads     [B, Sq, H, Dv]  MultiHeadOutput::heads of a forward, or MultiHeadActivations::heads. Any strides
/// @param gates     [H]             as given to that forward; absent = 1
/// @param selected  [N]             indices of remaining heads; absent = all, in order
/// @return [B, Sq, N, E_y]
/// @throws ShapeError  if shapes disagree, or a selected head is not in [0, H)
///
/// T is float or double. Cost 2*B*Sq*N*Dv*E_y flops. Memory: the result, B*Sq*N*E_y * sizeof(T) bytes.
template <class T>
MULTIHEAD_API Tensor<T, 4> head_contributions(const MultiHeadAttention<T>& layer,
                                              std::type_identity_t<TensorView<const T, 4>> heads,
                                              std::type_identity_t<TensorView<const T, 1>> gates = {},
                                              TensorView<const index_t, 1> selected = {});

namespace detail {
/// Original numbers of the remaining heads if `axis` has an entry per original head; null if its extent is 1.
/// @throws ShapeError  if its extent is another one, or there is no such axis
template <class T>
MULTIHEAD_API const std::vector<index_t>* remaining_along(const MultiHeadAttention<T>& layer, const index_t* shape,
                                                          int rank, int axis);
}  // namespace detail

/// From a tensor with an entry per original head, copies the entries of the heads that remain after remove_heads, in
/// order. For gates, slopes, biases, masks and any other tensor with an axis of heads:
///
///   const auto slopes = remaining_heads(layer, designed_slopes, 0);   // [original H] -> [H]
///   const auto bias = remaining_heads(layer, designed_bias, 1);       // [B, original H, Sq, Skv] -> [B, H, Sq, Skv]
///   layer.forward(input, output, {.attention = {.bias = bias, .alibi_slopes = slopes}});
///
/// @param head_axis  the axis of the original heads; if its extent is 1 (broadcast), the whole tensor is copied
/// @throws ShapeError  if the extent of the axis is neither config().num_heads nor 1
template <class T, class Element, int R>
Tensor<std::remove_const_t<Element>, R> remaining_heads(const MultiHeadAttention<T>& layer,
                                                        const TensorView<Element, R>& designed, int head_axis) {
  std::array<index_t, R> shape = designed.shape();
  const std::vector<index_t>* const kept = detail::remaining_along(layer, shape.data(), R, head_axis);
  const auto axis = static_cast<std::size_t>(head_axis);
  if (kept != nullptr) shape[axis] = static_cast<index_t>(kept->size());
  auto result = Tensor<std::remove_const_t<Element>, R>::uninitialized(shape);
  std::array<index_t, R> at{};
  for (index_t n = 0; n < result.size(); ++n) {
    index_t rest = n, offset = 0;
    for (std::size_t a = R; a-- > 0; rest /= shape[a]) at[a] = rest % shape[a];
    if (kept != nullptr) at[axis] = (*kept)[static_cast<std::size_t>(at[axis])];
    for (std::size_t a = 0; a < R; ++a) offset += at[a] * designed.stride()[a];
    result.data()[n] = designed.data()[offset];
  }
  return result;
}

template <class T, class Element, int R>
Tensor<Element, R> remaining_heads(const MultiHeadAttention<T>& layer, const Tensor<Element, R>& designed,
                                   int head_axis) {
  return remaining_heads(layer, designed.view(), head_axis);
}

}  // namespace multihead::nn
#pragma GCC diagnostic pop
