// From tokens to q or k of all heads: projection, RMS norm per head, rotary embedding. Forward and backward.
#pragma once

#include "multihead/nn/multi_head_attention.hpp"
#include "nn/projection.hpp"

namespace multihead::nn {

template <class T, int R>
void reuse(Tensor<T, R>& tensor, const typename Tensor<T, R>::Extents& shape) {
  if (!tensor.data() || tensor.shape() != shape) tensor = Tensor<T, R>::uninitialized(shape);
}

/// Views [B, S, H, D], whose heads are adjacent in memory, as one row of H*D features per token.
template <class T>
TensorView<T, 3> as_rows(TensorView<T, 4> x) {
  return {x.data(), {x.shape(0), x.shape(1), x.shape(2) * x.shape(3)}, {x.stride(0), x.stride(1), 1}};
}

/// Position of each token: [B, S] as given; otherwise [B or 1, S], counted from 0, from the start of a packed sequence,
/// or from the next position of the cache.
Tensor<index_t, 2> token_positions(TensorView<const index_t, 2> given, TensorView<const index_t, 1> cu_seqlens,
                                   const KvCache* cache, index_t batch, index_t seqlen);

template <class T>
struct HeadPath {
  const MultiHeadConfig& config;
  const Tensor<T, 2>& w;          ///< [H*D, width]
  const Tensor<T, 1>& b;          ///< [H*D]
  const PackedMatrix<T>& packed;  ///< w, or empty
  const Tensor<T, 1>& norm;       ///< [D]
  index_t head_dim;
  Tensor<index_t, 2> positions;  ///< [B or 1, S]

  /// Forward is the projection of x [B, S, width], then finish(), which gives heads [B, S, H, D]. If there is a norm,
  /// `raw` stores its input for the backward.
  Projection<T> projection(TensorView<const T, 3> x, Tensor<T, 4>& raw, Tensor<T, 4>& heads) const;
  void finish(const Tensor<T, 4>& raw, Tensor<T, 4>& heads) const;

  /// Replaces dheads by the gradient of the output of the projection. dnorm [D] is added to unless it has no data.
  void backward(TensorView<const T, 3> x, const Tensor<T, 4>& raw, Tensor<T, 4>& dheads, Tensor<T, 1>* dnorm,
                const ProjectionGradients<T>& gradients, Executor* threads) const;
};

}  // namespace multihead::nn
