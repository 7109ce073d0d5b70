// How alike two heads write, whatever their attention maps are.
//
//   O_h = Z_h W_h [tokens, E_y]     what head h adds to its layer's output; W_h [Dv, E_y] = w_o[:, h]^T
//
//   CKA_ij    = ||O_i^T O_j||_F^2 / (||O_i^T O_i||_F ||O_j^T O_j||_F)     columns centred; Kornblith et al. 2019, eq. 4
//   cosine_ij = <O_i, O_j> / (||O_i||_F ||O_j||_F)                        not centred
//
// CKA is 1 if the writes are equal up to a rotation and a factor of any sign; a copy with noise of nu times its
// standard deviation has 1 / (1 + nu^2). Only the cosine has a sign: two heads that cancel each other have CKA 1 and
// cosine -1. A head whose write does not vary has CKA 0 with all others.
//
// The writes themselves are never made. With the covariances C_ij of Z_i and Z_j and G_i = W_i W_i^T,
// ||O_i^T O_j||_F^2 = tr(G_i C_ij G_j C_ij^T).
#pragma once

#include "multihead/lens/head_products.hpp"

namespace multihead::lens {

/// Heads of one layer [Ha], and of the same or another one [Hb].
struct WriteSimilarity {
  Tensor<double, 2> cka;     ///< [Ha, Hb] in [0, 1]
  Tensor<double, 2> cosine;  ///< [Ha, Hb] in [-1, 1]
};

/// A layer and the products of the heads that it has.
struct LayerWrites {
  const nn::MultiHeadAttention<float>& layer;
  const HeadProducts& products;
};

/// The heads of one layer with each other. The diagonal is 1.
/// @throws ShapeError  if the features of the products are not the layer's, or they hold no token
///
/// Cost    2*F*F*E_y + 4*F*F*Dv flops. Memory  a few matrices [F, F] of doubles.
/// Threads the same bits for any number.
MULTIHEAD_API WriteSimilarity write_similarity(const LayerWrites& layer, Executor* threads = nullptr);

/// The heads of layer a with those of layer b, over the same tokens.
/// @param cross  Z_a^T Z_b [Fa, Fb], contiguous
/// @throws ShapeError  as above, if cross is not [Fa, Fb], or if the two have seen different numbers of tokens
MULTIHEAD_API WriteSimilarity write_similarity(const LayerWrites& a, const LayerWrites& b,
                                               TensorView<const double, 2> cross, Executor* threads = nullptr);

}  // namespace multihead::lens
