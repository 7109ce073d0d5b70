#include "reference/philox.hpp"

#include <cmath>

namespace multihead::reference {

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  auto [c0, c1, c2, c3] = counter;
  auto [k0, k1] = key;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * c0;
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * c2;
    const auto high0 = static_cast<std::uint32_t>(product0 >> 32), low0 = static_cast<std::uint32_t>(product0);
    const auto high1 = static_cast<std::uint32_t>(product1 >> 32), low1 = static_cast<std::uint32_t>(product1);
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9;  // the key schedule: multiples of the golden ratio and of sqrt(3) - 1
    k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

bool dropout_keeps(double probability, std::uint64_t seed, index_t sequence_id, index_t h, index_t i, index_t j) {
  const auto word = [](auto x) { return static_cast<std::uint32_t>(x); };
  const auto random = philox4x32_10({word(j / 4), word(i), word(h), word(sequence_id)}, {word(seed), word(seed >> 32)});
  return static_cast<double>(random[static_cast<std::size_t>(j % 4)]) >= std::round(probability * 0x1p32);
}

}  // namespace multihead::reference
