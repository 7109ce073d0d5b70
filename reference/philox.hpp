// Philox4x32-10, the counter-based generator behind dropout, written from its description alone.
//
// Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
#pragma once

#include <array>
#include <cstdint>

#include "multihead/types.hpp"

namespace multihead::reference {

/// Ten rounds of Philox on four 32-bit words.
std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// The rule of dropout: keep when the word of (h, i, j) is at least probability * 2^32, rounded to nearest.
/// Key = seed (low word first), counter = (j / 4, i, h, sequence_id), word j % 4.
bool dropout_keeps(double probability, std::uint64_t seed, index_t sequence_id, index_t h, index_t i, index_t j);

}  // namespace multihead::reference
