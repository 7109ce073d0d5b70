#include <cmath>

#include "core/element.hpp"
#include "core/require.hpp"
#include "multihead/nn/rope.hpp"

namespace multihead::nn {

// The attention factor is in the keys already, so this is a pure rotation.
void rope_shift(const Rope& rope, KvCache& cache, index_t sequence, index_t begin, index_t delta) {
  const index_t length = cache.length(sequence), head_dim = cache.shape().head_dim;
  require(begin >= 0 && begin <= length, "rope_shift", "begin must be in [0, the length]",
          {{"begin", begin}, {"length", length}});
  require(rope.rotary_dim() <= head_dim, "rope_shift", "rotary_dim must be at most the cache's head_dim",
          {{"rotary_dim", rope.rotary_dim()}, {"head_dim", head_dim}});
  require<UnsupportedError>(rope.config().scaling != RopeScaling::dynamic, "rope_shift",
                            "dynamic scaling must not be shifted", {}, "its angles change with the length");
  for (index_t j = begin; j < length; ++j) cache.writable_key(sequence, j);  // copies shared pages, or throws

  const std::vector<double> inv_freq = rope.inv_freq();
  const index_t half = rope.rotary_dim() / 2;
  const bool interleaved = rope.config().pairing == RopePairing::interleaved;
  for (index_t p = 0; p < half; ++p) {
    const double angle = static_cast<double>(delta) * inv_freq[static_cast<std::size_t>(p)], cos = std::cos(angle),
                 sin = std::sin(angle);
    const index_t first = interleaved ? 2 * p : p, second = interleaved ? 2 * p + 1 : p + half;
    for (index_t j = begin; j < length; ++j) {
      const OutputView<2> key = cache.writable_key(sequence, j);
      for (index_t g = 0; g < key.shape(0); ++g) {
        const index_t at_a = g * key.stride(0) + first * key.stride(1),
                      at_b = g * key.stride(0) + second * key.stride(1);
        const double a = load_element(key.data(), key.dtype(), at_a), b = load_element(key.data(), key.dtype(), at_b);
        store_element(key.data(), key.dtype(), at_a, a * cos - b * sin);
        store_element(key.data(), key.dtype(), at_b, b * cos + a * sin);
      }
    }
  }
  cache.shift_next_position(sequence, delta);
}

}  // namespace multihead::nn
