#include <cmath>

#include "core/philox.hpp"
#include "core/require.hpp"
#include "multihead/attention_options.hpp"

namespace multihead {

bool dropout_keeps(double probability, std::uint64_t seed, index_t sequence_id, index_t h, index_t i, index_t j) {
  require(probability >= 0 && probability <= 1, "dropout_keeps", "probability must lie in [0, 1]",
          {{"probability", probability}});
  const auto threshold = static_cast<std::uint64_t>(std::llround(probability * 0x1p32));
  const PhiloxBlock block =
      philox(seed, dropout_counter(static_cast<std::uint32_t>(j / 4), static_cast<std::uint32_t>(i),
                                   static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(sequence_id)));
  return block.word[j % 4] >= threshold;
}

}  // namespace multihead
