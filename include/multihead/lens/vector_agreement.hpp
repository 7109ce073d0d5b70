// What a sentence encoder gives before and after a change: how far its vectors have moved, and whether they still rank
// sentences alike.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "multihead/encoder.hpp"
#include "multihead/sentence_embedding.hpp"

namespace multihead::lens {

/// [N, E] the pooled vector of each sequence of token ids.
/// Cost    a forward over all, 32 sequences at a time. Memory  that of one such batch.
/// Threads the same bits for any number.
MULTIHEAD_API Tensor<float, 2> sentence_vectors(const Encoder& encoder, const SentencePooling& pooling,
                                                std::span<const std::vector<index_t>> sequences,
                                                Executor* threads = nullptr);

struct VectorAgreement {
  double loss = 0;                     ///< mean of 1 - cos(a, b) over the vectors
  std::optional<double> ranking = {};  ///< rank correlation of cos(a_i, a_j) with cos(b_i, b_j) over all pairs i < j
  std::optional<double> nearest = {};  ///< share of vectors that have the same nearest other vector by cosine
};

/// @param a, b  [N, E]; N >= 1. A vector of length 0 has cosine 0 with any.
/// @throws ShapeError  if the shapes differ or N is 0
/// Cost  2*N*N*E flops in f64. Memory  a few [N, N] of doubles.
MULTIHEAD_API VectorAgreement compare_vectors(TensorView<const float, 2> a, TensorView<const float, 2> b);

}  // namespace multihead::lens
