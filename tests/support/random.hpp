// Random numbers of the tests: one printed seed a run.
#pragma once

#include <cstdint>
#include <random>

#include "core/splitmix64.hpp"
#include "multihead/types.hpp"

namespace multihead::test {

/// The seed of this run: MULTIHEAD_TEST_SEED if set, else a fresh one. Printed when first asked for.
std::uint64_t run_seed();

/// SplitMix64 behind a few conveniences; the same numbers on every platform.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    const std::uint64_t result = splitmix64(state_);
    state_ += kSplitMix64Step;
    return result;
  }
  /// In [low, high).
  double uniform(double low = -1, double high = 1) {
    return low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53);
  }
  /// In [low, high], both included.
  index_t integer(index_t low, index_t high) {
    return low + static_cast<index_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(double probability) { return uniform(0, 1) < probability; }
  template <class Container>
  const auto& pick(const Container& from) {
    return from[static_cast<std::size_t>(integer(0, static_cast<index_t>(from.size()) - 1))];
  }

 private:
  std::uint64_t state_;
};

}  // namespace multihead::test
