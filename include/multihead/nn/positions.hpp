// Sinusoidal positions, in the two orders that are in use.
//
//   interleaved   [p, 2i] = sin(p * 10000^(-2i/E)),  [p, 2i + 1] = cos of the same     Vaswani et al. 2017, section 3.5
//   halves        [p, i] = sin(p * 10000^(-i/(E/2 - 1))),  [p, E/2 + i] = cos of it    tensor2tensor, fairseq
//
// With an odd E the last column of `interleaved` is a sine, that of `halves` is 0. Learned positions are an Embedding
// with the ids of packed_positions.
#pragma once

#include <cstdint>

#include "multihead/tensor.hpp"

namespace multihead::nn {

enum class Sinusoids : std::uint8_t { interleaved, halves };

/// [num_positions, features] of positions first, first + 1, .. Computed in double. T is float or double.
/// @throws ShapeError  if an extent is negative
template <class T>
MULTIHEAD_API Tensor<T, 2> sinusoidal_positions(Sinusoids order, index_t num_positions, index_t features,
                                                index_t first = 0);

/// [n] the place of each row in its sequence: 0, 1, .. for rows [offsets[b], offsets[b+1]).
/// @throws ShapeError  unless offsets [B+1] begin at 0 and do not descend
MULTIHEAD_API Tensor<index_t, 1> packed_positions(TensorView<const index_t, 1> offsets);

}  // namespace multihead::nn
