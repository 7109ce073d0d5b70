#include "multihead/lens/null_model.hpp"

#include <utility>

#include "core/splitmix64.hpp"
#include "models/parameter_walk.hpp"

namespace multihead::lens {

Encoder shuffled_encoder(const Encoder& encoder, std::uint64_t seed) {
  Encoder result = encoder.clone();
  std::uint64_t state = seed;
  const NamingScheme& scheme = naming_schemes().front();  // any: what parameters are called does not matter
  for_each_parameter(scheme, result, [&](const std::string&, auto& tensor) {
    for (auto n = static_cast<std::uint64_t>(tensor.size()); n > 1; --n, state += kSplitMix64Step) {
      std::swap(tensor.data()[n - 1], tensor.data()[splitmix64(state) % n]);
    }
  });
  return result;
}

}  // namespace multihead::lens
