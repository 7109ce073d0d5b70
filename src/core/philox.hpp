// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror & Shaw 2011 (SC'11), section 3.3.
//
// A pure function of key and counter: the number of any element can be computed alone, in any order, on any thread.
#pragma once

#include <cstdint>

namespace multihead {

struct PhiloxBlock {
  std::uint32_t word[4];
};

/// One round's constants: the two multipliers, and the two Weyl steps of the key.
inline constexpr std::uint32_t kPhiloxM0 = 0xD2511F53u, kPhiloxM1 = 0xCD9E8D57u;
inline constexpr std::uint32_t kPhiloxW0 = 0x9E3779B9u, kPhiloxW1 = 0xBB67AE85u;
inline constexpr int kPhiloxRounds = 10;

constexpr PhiloxBlock philox(std::uint64_t key, PhiloxBlock counter) {
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  PhiloxBlock x = counter;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kPhiloxM0} * x.word[0];
    const std::uint64_t product1 = std::uint64_t{kPhiloxM1} * x.word[2];
    x = {{static_cast<std::uint32_t>(product1 >> 32) ^ x.word[1] ^ key0, static_cast<std::uint32_t>(product1),
          static_cast<std::uint32_t>(product0 >> 32) ^ x.word[3] ^ key1, static_cast<std::uint32_t>(product0)}};
    key0 += kPhiloxW0;
    key1 += kPhiloxW1;
  }
  return x;
}

/// The counter of attention dropout: four consecutive keys share a counter and use one of its words each.
constexpr PhiloxBlock dropout_counter(std::uint32_t key_quad, std::uint32_t query, std::uint32_t head,
                                      std::uint32_t sequence_id) {
  return {{key_quad, query, head, sequence_id}};
}

}  // namespace multihead
