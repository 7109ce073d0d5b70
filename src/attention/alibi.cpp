#include <bit>
#include <cmath>

#include "core/require.hpp"
#include "multihead/attention_options.hpp"

namespace multihead {

void alibi_slopes(TensorView<float, 1> slopes) {
  const index_t num_heads = slopes.shape(0);
  require(num_heads >= 1, "alibi_slopes", "num_heads must be at least 1", {{"num_heads", num_heads}});
  const auto power = static_cast<index_t>(std::bit_floor(static_cast<std::uint64_t>(num_heads)));
  const auto slope = [](index_t n, index_t m) {
    return static_cast<float>(std::exp2(-8.0 * static_cast<double>(n + 1) / static_cast<double>(m)));
  };
  for (index_t h = 0; h < num_heads; ++h) slopes(h) = h < power ? slope(h, power) : slope(2 * (h - power), 2 * power);
}

}  // namespace multihead
