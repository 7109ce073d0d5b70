#include "tests/support/random.hpp"

#include <cstdio>
#include <cstdlib>

namespace multihead::test {

std::uint64_t run_seed() {
  static const std::uint64_t seed = [] {
    const char* const given = std::getenv("MULTIHEAD_TEST_SEED");
    const std::uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    std::printf("MULTIHEAD_TEST_SEED=%llu\n", static_cast<unsigned long long>(value));
    std::fflush(stdout);
    return value;
  }();
  return seed;
}

}  // namespace multihead::test
