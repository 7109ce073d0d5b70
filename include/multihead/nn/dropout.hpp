// Dropout on the rows of packed sequences, without a generator whose state would have to be kept.
//
//   y[n, j] = keep(n, j) * x[n, j] / (1 - p)          the gradient of x is the same function of the gradient of y
//
//   keep(n, j) = word j % 4 of philox(key, {j / 4, i, 0, sequence id}) >= p * 2^32     row n is token i of its sequence
//
// What is dropped depends on the key, the sequence's id, and the place in the sequence: neither on the batch that the
// sequence is in nor on threads. Source: Srivastava et al. 2014; Philox4x32-10: Salmon et al. 2011.
#pragma once

#include <cstdint>

#include "multihead/tensor_view.hpp"
#include "multihead/threads.hpp"

namespace multihead::nn {

struct RowDropout {
  double probability = 0.0;                        ///< p in [0, 1]; 0 = everything is kept, 1 = nothing
  std::uint64_t key = 0;                           ///< of dropout_key
  TensorView<const index_t, 1> offsets = {};       ///< [B+1]; sequence b owns rows [offsets[b], offsets[b+1])
  TensorView<const index_t, 1> sequence_ids = {};  ///< [B], each in [0, 2^32); unset = b
};

/// One key for each step of a run and each place in the network. The three are hashed one after the other, so that no
/// two of (seed, step, place) share their numbers by adding up alike.
MULTIHEAD_API std::uint64_t dropout_key(std::uint64_t seed, std::uint64_t step, std::uint64_t place);

/// Whether feature j of token i of this sequence is kept.
MULTIHEAD_API bool row_dropout_keeps(const RowDropout& dropout, index_t sequence_id, index_t i, index_t j);

/// T is float or double. Where the probability is 0, x is copied (or added).
/// @param x           [n, features], last axis contiguous
/// @param y           the shape of x, last axis contiguous; overwritten, or added to with `accumulate`; may be x
/// @throws ShapeError  before anything is written
template <class T>
MULTIHEAD_API void apply_dropout(const RowDropout& dropout, TensorView<const T, 2> x, TensorView<T, 2> y,
                                 bool accumulate = false, Executor* threads = nullptr);

}  // namespace multihead::nn
