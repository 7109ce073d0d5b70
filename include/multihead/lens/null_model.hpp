// A model that has learned nothing, to set beside one that has.
#pragma once

#include <cstdint>

#include "multihead/encoder.hpp"

namespace multihead::lens {

/// The same architecture; every parameter tensor has the values it had, in random order (Fisher & Yates 1938). So each
/// keeps its own scale: weights drawn small, as for training, would make every head look nearly everywhere alike, which
/// is no fair comparison.
///
/// Cost  one pass over the parameters. Memory  a second copy of them.
MULTIHEAD_API Encoder shuffled_encoder(const Encoder& encoder, std::uint64_t seed);

}  // namespace multihead::lens
