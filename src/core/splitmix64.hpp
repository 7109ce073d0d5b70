// SplitMix64 (Steele, Lea & Flood 2014): random numbers as a function of a counter.
#pragma once

#include <cstdint>

namespace multihead {

/// The increment of the state before each number.
inline constexpr std::uint64_t kSplitMix64Step = 0x9e3779b97f4a7c15u;

/// The number that belongs to a state.
constexpr std::uint64_t splitmix64(std::uint64_t state) {
  std::uint64_t z = state + kSplitMix64Step;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace multihead
