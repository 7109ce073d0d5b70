// Configuration and parameters of a multi-head attention layer, and which of its original heads remain.
#pragma once

#include <optional>
#include <vector>

#include "multihead/nn/rope.hpp"
#include "multihead/packed_matrix.hpp"
#include "multihead/tensor.hpp"

namespace multihead::nn {

/// The layer before any removal of heads. Extents that are unset follow from the others.
struct MultiHeadConfig {
  index_t d_model = 512;                     ///< E: features of x_q
  index_t num_heads = 8;                     ///< H
  std::optional<index_t> num_kv_heads = {};  ///< Hkv; unset = num_heads
  std::optional<index_t> head_dim = {};      ///< D; unset = d_model / num_heads without remainder
  std::optional<index_t> head_dim_v = {};    ///< Dv; unset = head_dim
  std::optional<index_t> k_width = {};       ///< E_k: features of x_k; unset = d_model
  std::optional<index_t> v_width = {};       ///< E_v: features of x_v; unset = d_model
  std::optional<index_t> y_width = {};       ///< E_y: features of y; unset = d_model
  bool b_q = true, b_k = true, b_v = true, b_o = true;
  bool q_norm = false, k_norm = false;  ///< RMS norm of q, k per head, before rope; learned weight
  double norm_epsilon = 1e-6;
  std::optional<RopeConfig> rope = {};  ///< rotates q and k by their positions
  std::optional<double> scale = {};     ///< of the scores; unset = 1/sqrt(head_dim)
  double dropout = 0.0;                 ///< on the probs, in training only
  bool bias_kv = false;                 ///< one learned key and value per kv head, seen by every query
  bool zero_attn = false;               ///< one key and value of zeros, seen by every query: a sink of logit 0
  bool sinks = false;                   ///< a learned logit per head, see AttentionOptions::sinks; not with zero_attn
};

/// All extents of a layer. num_heads and num_kv_heads count the heads that remain after remove_heads.
struct MultiHeadExtents {
  index_t d_model, num_heads, num_kv_heads, head_dim, head_dim_v, k_width, v_width, y_width;
};

/// Parameters, or their gradients. Weights are [out_features, in_features]; a head is a block of rows of w_q, w_k, w_v
/// and a block of columns of w_o. A parameter that the layer does not have is a Tensor without data.
template <class T>
struct MultiHeadParameters {
  Tensor<T, 2> w_q;     ///< [H*D, E]
  Tensor<T, 2> w_k;     ///< [Hkv*D, E_k]
  Tensor<T, 2> w_v;     ///< [Hkv*Dv, E_v]
  Tensor<T, 2> w_o;     ///< [E_y, H*Dv]
  Tensor<T, 1> b_q;     ///< [H*D]
  Tensor<T, 1> b_k;     ///< [Hkv*D]
  Tensor<T, 1> b_v;     ///< [Hkv*Dv]
  Tensor<T, 1> b_o;     ///< [E_y]
  Tensor<T, 1> q_norm;  ///< [D]
  Tensor<T, 1> k_norm;  ///< [D]
  Tensor<T, 2> bias_k;  ///< [Hkv, D]
  Tensor<T, 2> bias_v;  ///< [Hkv, Dv]
  Tensor<T, 1> sinks;   ///< [H]

  /// Calls visit(name, tensor) for each parameter that the layer has, always in the same order.
  template <class Visit>
  void for_each(Visit&& visit) {
    for_each_of(*this, visit);
  }
  template <class Visit>
  void for_each(Visit&& visit) const {
    for_each_of(*this, visit);
  }

 private:
  template <class Self, class Visit>
  static void for_each_of(Self& self, Visit& visit) {
    const auto one = [&](const char* name, auto& tensor) {
      if (tensor.data()) visit(name, tensor);
    };
    one("w_q", self.w_q), one("b_q", self.b_q);
    one("w_k", self.w_k), one("b_k", self.b_k);
    one("w_v", self.w_v), one("b_v", self.b_v);
    one("w_o", self.w_o), one("b_o", self.b_o);
    one("q_norm", self.q_norm), one("k_norm", self.k_norm);
    one("bias_k", self.bias_k), one("bias_v", self.bias_v);
    one("sinks", self.sinks);
  }
};

/// Packed copies of the weights.
template <class T>
struct PackedWeights {
  PackedMatrix<T> w_q, w_k, w_v, w_o;
};

/// Which of its original heads a layer still has. It is part of the model: save it with the parameters.
struct RemainingHeads {
  std::vector<index_t> original_heads;     ///< [H] number of each head in the original layer, ascending
  std::vector<index_t> original_kv_heads;  ///< [Hkv] the same for kv heads
  std::vector<index_t> kv_head_of;         ///< [H] index, in original_kv_heads, of the kv head of each head
};

/// The slices of the parameters that belong to one head. A view is absent if the layer has no such parameter.
template <class T>
struct HeadView {
  index_t original_head;     ///< its number in the original layer
  index_t original_kv_head;  ///< its kv head; w_k, w_v, b_k, b_v are shared by all heads of that kv head
  TensorView<T, 2> w_q;      ///< [D, E]
  TensorView<T, 2> w_k;      ///< [D, E_k]
  TensorView<T, 2> w_v;      ///< [Dv, E_v]
  TensorView<T, 2> w_o;      ///< [E_y, Dv], columns of the layer's w_o
  TensorView<T, 1> b_q;      ///< [D]
  TensorView<T, 1> b_k;      ///< [D]
  TensorView<T, 1> b_v;      ///< [Dv]
};

}  // namespace multihead::nn
