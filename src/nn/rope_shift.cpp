#include <cmath>

#include "core/require.hpp"
#include "multihead/nn/rope.hpp"

namespace multihead::nn {
namespace {

double load(const OutputView<2>& key, index_t g, index_t d) {
  switch (key.dtype()) {
    case DType::f64: return key.as<double>()(g, d);
    case DType::bf16: return to_float(key.as<bf16>()(g, d));
    case DType::f16: return to_float(key.as<f16>()(g, d));
    default: return key.as<float>()(g, d);
  }
}

void store(const OutputView<2>& key, index_t g, index_t d, double value) {
  switch (key.dtype()) {
    case DType::f64: key.as<double>()(g, d) = value; break;
    case DType::bf16: key.as<bf16>()(g, d) = to_bf16(float(value)); break;
    case DType::f16: key.as<f16>()(g, d) = to_f16(float(value)); break;
    default: key.as<float>()(g, d) = float(value);
  }
}

}  // namespace

// The attention factor is in the keys already: this is a pure turn.
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
    const double angle = double(delta) * inv_freq[std::size_t(p)], cos = std::cos(angle), sin = std::sin(angle);
    const index_t first = interleaved ? 2 * p : p, second = interleaved ? 2 * p + 1 : p + half;
    for (index_t j = begin; j < length; ++j) {
      const OutputView<2> key = cache.writable_key(sequence, j);
      for (index_t g = 0; g < key.shape(0); ++g) {
        const double a = load(key, g, first), b = load(key, g, second);
        store(key, g, first, a * cos - b * sin);
        store(key, g, second, b * cos + a * sin);
      }
    }
  }
  cache.shift_next_position(sequence, delta);
}

}  // namespace multihead::nn
