#include "nn/head_path.hpp"

#include <algorithm>

#include "nn/head_norm.hpp"

namespace multihead::nn {
namespace {

template <class T>
struct Angles {
  RopeTable<T> table;
  RopeAngles<T> view;

  Angles(const RopeConfig& config, index_t head_dim, const Tensor<index_t, 2>& positions) {
    const Rope rope(config, head_dim);
    table = rope.table<T>({positions.data(), {positions.size()}});
    const std::array<index_t, 3> shape{positions.shape(0), positions.shape(1), rope.rotary_dim() / 2};
    view = {{table.cos.data(), shape}, {table.sin.data(), shape}, config.pairing};
  }
};

}  // namespace

Tensor<index_t, 2> token_positions(TensorView<const index_t, 2> given, TensorView<const index_t, 1> cu_seqlens,
                                   const KvCache* cache, index_t batch, index_t seqlen) {
  Tensor<index_t, 2> positions({given || cache ? batch : 1, seqlen});
  for (index_t b = 0; b < positions.shape(0); ++b) {
    const index_t first = cache ? cache->next_position(b) : 0;
    for (index_t i = 0; i < seqlen; ++i) positions(b, i) = given ? given(b, i) : first + i;
  }
  if (!given && cu_seqlens) {
    for (index_t s = 0; s + 1 < cu_seqlens.shape(0); ++s) {
      const index_t begin = std::clamp<index_t>(cu_seqlens(s), 0, seqlen);
      for (index_t i = begin; i < std::min(cu_seqlens(s + 1), seqlen); ++i) positions(0, i) = i - begin;
    }
  }
  return positions;
}

template <class T>
Projection<T> HeadPath<T>::projection(TensorView<const T, 3> x, Tensor<T, 4>& raw, Tensor<T, 4>& heads) const {
  Tensor<T, 4>& projected = norm.data() ? raw : heads;
  const std::array<index_t, 4> shape{x.shape(0), x.shape(1), w.shape(0) / head_dim, head_dim};
  reuse(projected, shape);
  reuse(heads, shape);
  return {x, w, b, as_rows(projected.view()), packed};
}

template <class T>
void HeadPath<T>::finish(const Tensor<T, 4>& raw, Tensor<T, 4>& heads) const {
  if (norm.data()) head_norm<T>(raw.view(), norm, config.norm_epsilon, heads.view());
  if (config.rope) rope_apply<T>(heads.view(), heads.view(), Angles<T>(*config.rope, head_dim, positions).view);
}

template <class T>
void HeadPath<T>::backward(TensorView<const T, 3> x, const Tensor<T, 4>& raw, Tensor<T, 4>& dheads, Tensor<T, 1>* dnorm,
                           const ProjectionGradients<T>& gradients, Executor* threads) const {
  if (config.rope) rope_backward<T>(dheads.view(), dheads.view(), Angles<T>(*config.rope, head_dim, positions).view);
  if (!dnorm->data()) dnorm = nullptr;
  if (norm.data()) head_norm_backward<T>(raw.view(), norm, config.norm_epsilon, dheads.view(), dnorm);
  project_backward<T>(x, w, as_rows<const T>(dheads.view()), gradients, threads);
}

template struct HeadPath<float>;
template struct HeadPath<double>;

}  // namespace multihead::nn
