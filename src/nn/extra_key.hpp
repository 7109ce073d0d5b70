// The learned key and value (bias_k, bias_v) that every query of a head sees in addition to its ordinary keys, whatever
// the mask. It is merged into the results of attention_forward, so masks, lengths and caches have only ordinary keys:
//
//   s = softcap(scale * q . bias_k[g])        m = max(row_max, s)        g = kv_head_of[h]
//   a = exp(row_max - m) * row_sum            e = exp(s - m)             row_max = m, row_sum = a + e
//   out = (a * out + e * keep * bias_v[g]) / (a + e)                     keep: factor of dropout, 1 without
//
// Source: Milakov & Gimelshein 2018, eq. 4 (merging of partial softmax sums).
#pragma once

#include <span>

#include "multihead/attention.hpp"
#include "multihead/tensor.hpp"

namespace multihead::nn {

template <class T>
struct ExtraKey {
  const Tensor<T, 2>& bias_k;           ///< [Hkv, D]
  const Tensor<T, 2>& bias_v;           ///< [Hkv, Dv]
  std::span<const index_t> kv_head_of;  ///< [H]
  double scale;
};

/// The results of attention_forward, which are updated.
template <class T>
struct ExtraKeyRows {
  TensorView<T, 4> out;               ///< [B, Sq, H, Dv]
  TensorView<T, 3> row_max, row_sum;  ///< [B, H, Sq]
  TensorView<T, 4> probs = {};        ///< [B, H, Sq, Skv] or the part that options.probs selects
};

template <class T>
void join_extra_key(const ExtraKey<T>& extra, TensorView<const T, 4> q, const AttentionOptions& options,
                    const ExtraKeyRows<T>& rows);

template <class T>
struct ExtraKeyGradients {
  TensorView<T, 4> dq = {};         ///< [B, Sq, H, D], added to
  Tensor<T, 2>* dbias_k = nullptr;  ///< [Hkv, D], added to
  Tensor<T, 2>* dbias_v = nullptr;  ///< [Hkv, Dv], added to
};

/// p = exp(s - row_max) / row_sum,  dp = keep * dout . bias_v,  ds = p * (dp - dout . out) * (slope of softcap)
template <class T>
void extra_key_backward(const ExtraKey<T>& extra, TensorView<const T, 4> q, TensorView<const T, 4> dout,
                        const AttentionOptions& options, const ExtraKeyRows<const T>& rows,
                        const ExtraKeyGradients<T>& gradients);

}  // namespace multihead::nn
