// What a layer loses with some of its heads, and how the heads that stay can make up for it, by least squares over the
// tokens of a text.
//
//   y = sum_h Z_h W_h + b_o     W_h [Dv, E_y] = w_o[:, h]^T;  R: heads that go, K: heads that stay
//
//   none    y' = sum_K Z_k W_k + b_o
//   mean    b_o' = b_o + sum_R mean(Z_r) W_r                                             the mean of what is lost
//   scale   W_k' = a_k W_k                 min_a ||Y - sum_K a_k Z_k W_k||^2             Kwon et al. 2022, 3.3
//   fold    W_K' = W_K + D                 min_D,b ||Z_R W_R - Z_K D - b||^2 + lambda ||D||^2,   b_o' = b_o + b
//           D = (C_KK + lambda I)^-1 C_KR W_R,  C the covariance of Z,  lambda = ridge * tr(C) / F
//
// mean and fold need a layer that has b_o; fold does without b where there is none. All moments are in f64.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "multihead/lens/head_products.hpp"

namespace multihead::lens {

enum class Compensation : std::uint8_t { none, mean, scale, fold };

constexpr double kDefaultRidge = 1e-4;

/// w_o and b_o of the layer that is left: assign them to its parameters after remove_heads(removed).
struct OutputWeights {
  Tensor<float, 2> w_o;  ///< [E_y, H'*Dv], H' = heads that stay
  Tensor<float, 1> b_o;  ///< [E_y]; without data where the layer has none
};

/// The errors and weights of removals from one layer; both arguments may go afterwards.
class MULTIHEAD_API HeadRemoval {
 public:
  /// @param products  of this layer's heads as they are now
  /// @throws ShapeError  if their features are not the layer's, they hold no token, or ridge is not above 0
  ///
  /// Cost  a few products of [F, F] matrices. Memory  three [F, F] matrices of doubles.
  HeadRemoval(const nn::MultiHeadAttention<float>& layer, const HeadProducts& products, double ridge = kDefaultRidge);
  ~HeadRemoval();
  HeadRemoval(HeadRemoval&&) noexcept;
  HeadRemoval& operator=(HeadRemoval&&) noexcept;

  /// Mean over tokens of ||y - y'||^2 when these heads are gone and the rest makes up for them.
  /// @param removed  distinct, counted among the heads that the layer has; all of them is allowed
  /// @throws ShapeError  if they are not, or the layer has no b_o for Compensation::mean
  /// Cost  for fold that of solving with a [F', F'] matrix, F' = features that stay; little for the others.
  double error(std::span<const index_t> removed, Compensation compensation) const;

  /// Mean over tokens of ||y - mean(y)||^2: what errors are compared with.
  double variance() const;

  /// @throws ShapeError  as error()
  OutputWeights weights(std::span<const index_t> removed, Compensation compensation) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace multihead::lens
