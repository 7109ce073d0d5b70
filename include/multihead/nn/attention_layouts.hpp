// Converts the parameters of a layer from and to the layouts of other libraries: the same numbers under other names,
// concatenated, split or transposed. Input and output are named tensors in memory, not files.
//
//   torch   nn.MultiheadAttention: in_proj_weight [3E, E] or, where key or value widths differ, q_proj_weight [E, E],
//           k_proj_weight [E, E_k], v_proj_weight [E, E_v]; in_proj_bias [3E]; out_proj.weight [E, E], out_proj.bias
//           [E]; bias_k, bias_v [1, 1, E]. All biases or none. zero_attn is not stored.
//   keras   MultiHeadAttention: {query,key,value}_dense/vars/0 [width, H, D or Dv], output_dense/vars/0 [H, Dv, E_y];
//           biases /vars/1 [H, D or Dv], [E_y]. All biases or none.
//   gpt2    c_attn.weight [E, 3E], c_attn.bias [3E], c_proj.weight [E, E], c_proj.bias [E]: [in, out], transposed.
//           The buffers `bias` and `masked_bias` are ignored.
//   gpt2_cross   q_attn.weight [E, E], q_attn.bias [E], c_attn.weight [E, 2E] for k and v, the others as in gpt2.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "multihead/nn/multi_head_attention.hpp"

namespace multihead::nn {

enum class AttentionLayout : std::uint8_t { torch, keras, gpt2, gpt2_cross };

/// A row-major tensor of any rank that owns its values.
template <class T>
struct NamedTensor {
  std::vector<index_t> shape;
  std::vector<T> values;
};

/// The same, without ownership of the values.
template <class T>
struct NamedView {
  const T* data;
  std::vector<index_t> shape;
};

template <class T>
using NamedTensors = std::map<std::string, NamedTensor<T>>;
template <class T>
using NamedViews = std::map<std::string, NamedView<T>>;

template <class T>
NamedViews<T> views_of(const NamedTensors<T>& tensors) {
  NamedViews<T> views;
  for (const auto& [name, tensor] : tensors) views[name] = {tensor.values.data(), tensor.shape};
  return views;
}
template <class T>
NamedViews<T> views_of(const NamedTensors<T>&& tensors) = delete;  // the views would dangle

/// The configuration of a layer whose tensors have torch's layout. They do not tell num_heads, zero_attn and dropout.
/// @throws CheckpointError  if a tensor is missing or has another rank
template <class T>
MULTIHEAD_API MultiHeadConfig torch_config(const NamedViews<T>& tensors, index_t num_heads);

/// Fills layer.parameters().
/// @throws UnsupportedError  if the layout cannot represent a layer with this configuration
/// @throws CheckpointError   if a tensor is missing, has another shape, or does not belong to the layout; the layer is
///                           not changed in that case
template <class T>
MULTIHEAD_API void load_layout(AttentionLayout layout, const NamedViews<T>& tensors, MultiHeadAttention<T>& layer);

/// @throws UnsupportedError  if the layout cannot represent a layer with this configuration
template <class T>
MULTIHEAD_API NamedTensors<T> save_layout(AttentionLayout layout, const MultiHeadAttention<T>& layer);

// In the boolean masks of torch's nn.MultiheadAttention, True = hidden. These functions convert them to Mask::visible,
// where true = visible. (Its float masks are added to the scores, as AttentionOptions::bias is. In torch's
// scaled_dot_product_attention, True = visible.)

/// attn_mask [Sq, Skv] -> visible [Sq, Skv]
MULTIHEAD_API Tensor<bool, 2> visible_from_torch_attn_mask(TensorView<const bool, 2> hidden);
/// attn_mask [B*H, Sq, Skv] -> visible [B, H, Sq, Skv]. @throws ShapeError  unless num_heads divides the first axis
MULTIHEAD_API Tensor<bool, 4> visible_from_torch_attn_mask(TensorView<const bool, 3> hidden, index_t num_heads);
/// key_padding_mask [B, Skv] -> visible [B, 1, 1, Skv]
MULTIHEAD_API Tensor<bool, 4> visible_from_torch_key_padding_mask(TensorView<const bool, 2> hidden);

}  // namespace multihead::nn
