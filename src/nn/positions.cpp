#include "multihead/nn/positions.hpp"

#include <cmath>

#include "nn/rows.hpp"

namespace multihead::nn {

template <class T>
Tensor<T, 2> sinusoidal_positions(Sinusoids order, index_t num_positions, index_t features, index_t first) {
  Tensor<T, 2> table({num_positions, features});
  const index_t pairs = (features + 1) / 2, half = features / 2;
  const auto rate = [&](index_t i) {
    const double exponent = order == Sinusoids::interleaved
                                ? 2 * static_cast<double>(i) / static_cast<double>(features)
                                : static_cast<double>(i) / static_cast<double>(std::max<index_t>(half - 1, 1));
    return std::pow(10000.0, -exponent);
  };
  for (index_t p = 0; p < num_positions; ++p) {
    for (index_t i = 0; i < (order == Sinusoids::interleaved ? pairs : half); ++i) {
      const double angle = static_cast<double>(first + p) * rate(i);
      const index_t sine = order == Sinusoids::interleaved ? 2 * i : i;
      const index_t cosine = order == Sinusoids::interleaved ? 2 * i + 1 : half + i;
      table(p, sine) = static_cast<T>(std::sin(angle));
      if (cosine < features) table(p, cosine) = static_cast<T>(std::cos(angle));
    }
  }
  return table;
}

Tensor<index_t, 1> packed_positions(TensorView<const index_t, 1> offsets) {
  const index_t batch = offsets.shape(0) - 1;
  require(batch >= 0 && offsets(0) == 0, "packed_positions", "offsets must begin at 0",
          {{"offsets", text_of(offsets)}});
  Tensor<index_t, 1> positions({offsets(batch)});
  for (index_t b = 0; b < batch; ++b) {
    require(offsets(b) <= offsets(b + 1) && offsets(b + 1) <= offsets(batch), "packed_positions",
            "offsets must not descend", {{"b", b}, {"offset", offsets(b)}, {"next", offsets(b + 1)}});
    for (index_t n = offsets(b); n < offsets(b + 1); ++n) positions(n) = n - offsets(b);
  }
  return positions;
}

template Tensor<float, 2> sinusoidal_positions(Sinusoids, index_t, index_t, index_t);
template Tensor<double, 2> sinusoidal_positions(Sinusoids, index_t, index_t, index_t);

}  // namespace multihead::nn
