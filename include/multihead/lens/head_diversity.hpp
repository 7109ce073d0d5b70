// How many different heads a layer has, and what would be lost if their outputs were averaged.
//
//   effective heads = exp(-sum_k l_k log l_k)     l: eigenvalues of CKA / H; Friedman & Dieng 2023 (Vendi score)
//   averaging loss  = 1 - R2(Z | mean_h Z_h)      Z [tokens, H*Dv] by least squares with a bias from [tokens, Dv]
//
// H heads that write independently count H, heads that are one and the same 1. An average of independent heads keeps
// 1/H of the variance, of identical ones all of it; the loss is what concatenation keeps and averaging does not.
#pragma once

#include <optional>

#include "multihead/lens/head_products.hpp"

namespace multihead::lens {

/// @param cka  [H, H], symmetric, 1 on the diagonal
/// @returns in [1, H]; 0 for H = 0
/// @throws ShapeError  if it is not square
/// Cost  O(H^3).
MULTIHEAD_API double effective_heads(TensorView<const double, 2> cka);

/// @returns in [0, 1]; none for no heads, or if no output varies
/// @throws ShapeError  if the features cannot be split into num_heads
/// Cost  O(F^2 + F Dv^2). The fit has a ridge of 1e-6 of the mean variance and is judged on its own tokens: there
/// should be many more of them than Dv.
MULTIHEAD_API std::optional<double> averaging_loss(const HeadProducts& products, index_t num_heads);

}  // namespace multihead::lens
