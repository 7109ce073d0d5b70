// Second moments of what the heads of a layer read, gathered while a text runs through the model. All that least
// squares over head outputs needs, in memory that does not grow with the text.
//
//   Z [tokens, F]   head outputs before w_o, side by side: F = H*Dv, head h in columns [h*Dv, (h+1)*Dv)
//   products = Z^T Z [F, F]      sums = Z^T 1 [F]      in f64
//
// y = Z w_o^T + b_o, so that every inner product of two outputs of the layer follows: the write of head i is
// O_i = Z_i w_o[:, i]^T, and <O_i, O_j> = tr(w_o[:, i] Z_i^T Z_j w_o[:, j]^T).
#pragma once

#include <vector>

#include "multihead/lens/observe.hpp"

namespace multihead::lens {

class MULTIHEAD_API HeadProducts {
 public:
  /// @param features  F
  explicit HeadProducts(index_t features);

  /// @param z  [n, F], last axis contiguous
  /// @throws ShapeError  if F is another
  ///
  /// Cost    2*n*F*F flops in f64. Memory  n*F doubles.
  /// Threads the same bits for any number.
  void add(TensorView<const float, 2> z, Executor* threads = nullptr);

  /// Adds the tokens of the same heads that another has seen.
  /// @throws ShapeError  if F is another
  void add(const HeadProducts& other);

  index_t num_tokens() const { return num_tokens_; }
  index_t features() const { return sums_.shape(0); }
  TensorView<const double, 1> sums() const { return sums_; }          ///< [F]
  TensorView<const double, 2> products() const { return products_; }  ///< [F, F], symmetric

 private:
  index_t num_tokens_ = 0;
  Tensor<double, 1> sums_;
  Tensor<double, 2> products_;
};

/// One for each layer, of the heads that it has.
MULTIHEAD_API std::vector<HeadProducts> make_head_products(const Encoder& encoder);

/// Adds the tokens of a batch. The capture of the pass needs head_outputs, of all heads.
/// @throws ShapeError  if they were not captured
MULTIHEAD_API void add_head_outputs(std::vector<HeadProducts>& products, const ObservedBatch& batch);

}  // namespace multihead::lens
