#include "multihead/nn/heads.hpp"

#include "core/require.hpp"
#include "multihead/matmul.hpp"

namespace multihead::nn {

template <class T>
Tensor<T, 4> head_contributions(const MultiHeadAttention<T>& layer, std::type_identity_t<TensorView<const T, 4>> heads,
                                std::type_identity_t<TensorView<const T, 1>> gates,
                                TensorView<const index_t, 1> selected) {
  const char* const function = "head_contributions";
  const MultiHeadExtents& e = layer.extents();
  require(heads && heads.shape(2) == e.num_heads && heads.shape(3) == e.head_dim_v, function,
          "heads must be [B, Sq, H, Dv]",
          {{"heads", heads ? GotShape(heads.shape().data(), 4) : GotShape()},
           {"num_heads", e.num_heads},
           {"head_dim_v", e.head_dim_v}});
  require(!gates || gates.shape(0) == e.num_heads, function, "gates must have one entry for each head that remains",
          {{"gates", gates.shape(0)}, {"num_heads", e.num_heads}});
  const index_t count = selected ? selected.shape(0) : e.num_heads;
  const auto head_of = [&](index_t n) { return selected ? selected(n) : n; };
  for (index_t n = 0; n < count; ++n) {
    require(head_of(n) >= 0 && head_of(n) < e.num_heads, function, "selected must name heads in [0, num_heads)",
            {{"selected", head_of(n)}, {"num_heads", e.num_heads}});
  }
  Tensor<T, 4> result({heads.shape(0), heads.shape(1), count, e.y_width});
  for (index_t n = 0; n < count; ++n) {
    const index_t h = head_of(n);
    const TensorView<const T, 2> w_o = layer.head(h).w_o;
    for (index_t b = 0; b < heads.shape(0); ++b) {
      const TensorView<T, 2> to = result.view()[b].permute({1, 0, 2})[n];
      matmul(heads[b].permute({1, 0, 2})[h], w_o, to);
      if (!gates) continue;
      for (index_t i = 0; i < to.shape(0); ++i) {
        for (index_t c = 0; c < to.shape(1); ++c) to(i, c) *= gates(h);
      }
    }
  }
  return result;
}

template <class T>
const std::vector<index_t>* detail::remaining_along(const MultiHeadAttention<T>& layer, const index_t* shape, int rank,
                                                    int axis) {
  const char* const function = "remaining_heads";
  require(axis >= 0 && axis < rank, function, "head_axis must be one of the tensor",
          {{"head_axis", axis}, {"shape", GotShape(shape, rank)}});
  const index_t designed = layer.config().num_heads;
  require(shape[axis] == designed || shape[axis] == 1, function,
          "the axis must have an entry for each designed head, or one",
          {{"extent", shape[axis]}, {"num_heads", designed}});
  return shape[axis] == designed ? &layer.heads().original_heads : nullptr;
}

template Tensor<float, 4> head_contributions(const MultiHeadAttention<float>&, TensorView<const float, 4>,
                                             TensorView<const float, 1>, TensorView<const index_t, 1>);
template Tensor<double, 4> head_contributions(const MultiHeadAttention<double>&, TensorView<const double, 4>,
                                              TensorView<const double, 1>, TensorView<const index_t, 1>);
template const std::vector<index_t>* detail::remaining_along(const MultiHeadAttention<float>&, const index_t*, int,
                                                             int);
template const std::vector<index_t>* detail::remaining_along(const MultiHeadAttention<double>&, const index_t*, int,
                                                             int);

}  // namespace multihead::nn
