// Whether the other heads of a layer can do what one head does, and in which order heads may go.
//
//   R2_j = 1 - sum ||O_j - O_j'||^2 / sum ||O_j - c||^2
//   O_j' = sum_{k in K} Z_k M_k + b     M, b: least squares with ridge lambda = 1e-6 tr(C) / F on one half of the text
//
// The sums run over the other half; O_j = Z_j W_j is what head j writes, c its mean on the first half, C the covariance
// of Z. 1: the heads K have everything that j writes, as a copy or as a mix of several; 0: as little as a constant;
// below 0: what was learned does not hold on other text. A head whose write does not vary has 1. Where the layer has no
// b_o to take it there is no b, and c is 0.
//
// Of two copies each can be replaced, but only one may go. The order of removal therefore takes the head with the
// largest R2 given those that are left, and fits again after each.
//
// With P = (C + lambda I)^-1, the residual of Z_j given the rest is Z T^T, T = P_jj^-1 P_j:, and a head goes from P by
// P_KK - P_Kj P_jj^-1 P_jK, so that one inverse serves all fits.
#pragma once

#include <vector>

#include "multihead/lens/head_products.hpp"

namespace multihead::lens {

struct RemovalStep {
  index_t head = 0;
  double r2 = 0;  ///< given the heads that are left after it
};

struct Replaceability {
  std::vector<double> r2;          ///< [H] given all other heads of the layer
  std::vector<RemovalStep> order;  ///< [H] the first to go first; the last has only b to replace it
};

constexpr double kReplaceable = 0.95;  ///< R2 from which a head counts as replaceable

/// @param fit, held_out  products of the layer's heads on different text
/// @throws ShapeError  if their features are not the layer's, or one holds no token
///
/// Cost    about (2/3 H + 2) F^3 flops in f64. Memory  a few matrices [F, F] of doubles.
/// Tokens  far more than F in both halves, or R2 is low for want of text.
MULTIHEAD_API Replaceability replaceability(const nn::MultiHeadAttention<float>& layer, const HeadProducts& fit,
                                            const HeadProducts& held_out);

}  // namespace multihead::lens
