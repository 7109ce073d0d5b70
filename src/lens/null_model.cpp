#include "multihead/lens/null_model.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "core/splitmix64.hpp"
#include "models/parameter_walk.hpp"

namespace multihead::lens {

Encoder shuffled_encoder(const Encoder& encoder, std::uint64_t seed) {
  std::vector<nn::RemainingHeads> heads;
  for (const EncoderLayer& layer : encoder.layers()) heads.push_back(layer.attention.heads());
  Encoder result(encoder.config(), heads);

  const NamingScheme& scheme = naming_schemes().front();  // any: what parameters are called does not matter
  std::vector<std::span<const float>> originals;
  for_each_parameter(scheme, encoder, [&](const std::string&, const auto& from) {
    originals.emplace_back(from.data(), static_cast<std::size_t>(from.size()));
  });
  std::size_t next = 0;
  std::uint64_t state = seed;
  for_each_parameter(scheme, result, [&](const std::string&, auto& to) {
    std::ranges::copy(originals[next++], to.data());
    for (auto n = static_cast<std::uint64_t>(to.size()); n > 1; --n, state += kSplitMix64Step) {
      std::swap(to.data()[n - 1], to.data()[splitmix64(state) % n]);
    }
  });
  return result;
}

}  // namespace multihead::lens
