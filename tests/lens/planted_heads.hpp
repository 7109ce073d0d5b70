// A layer whose head outputs are given: heads that repeat, mix or ignore each other by construction.
#pragma once

#include <array>
#include <cmath>

#include "multihead/lens/head_products.hpp"
#include "support/random.hpp"

namespace multihead::lens {

/// Nearly normal numbers of variance 1.
inline float nearly_normal(test::Random& random) {
  double sum = 0;
  for (int n = 0; n < 12; ++n) sum += random.uniform(0, 1);
  return static_cast<float>(sum - 6);
}

/// Independent normal outputs of variance 1 and random w_o, b_o, until a test plants something.
struct PlantedHeads {
  static constexpr index_t kWidth = 8, kModel = 64;
  index_t num_heads, num_tokens;
  nn::MultiHeadAttention<float> layer;
  Tensor<float, 2> z;  // [tokens, H*Dv]

  PlantedHeads(index_t heads, index_t tokens, test::Random& random)
      : num_heads(heads),
        num_tokens(tokens),
        layer({.d_model = kModel, .num_heads = heads, .head_dim = kWidth}),
        z(std::array{tokens, heads * kWidth}) {
    for (index_t n = 0; n < z.size(); ++n) z.data()[n] = nearly_normal(random);
    auto& p = layer.parameters();
    for (index_t n = 0; n < p.w_o.size(); ++n) p.w_o.data()[n] = nearly_normal(random) / 8;
    for (index_t n = 0; n < p.b_o.size(); ++n) p.b_o.data()[n] = nearly_normal(random);
  }

  float& output(index_t i, index_t head, index_t d) { return z(i, head * kWidth + d); }
  float& weight(index_t e, index_t head, index_t d) { return layer.parameters().w_o(e, head * kWidth + d); }

  /// Head `to` writes `factor` times what `from` writes.
  void copy(index_t from, index_t to, float factor = 1) {
    for (index_t d = 0; d < kWidth; ++d) {
      for (index_t i = 0; i < num_tokens; ++i) output(i, to, d) = factor * output(i, from, d);
      for (index_t e = 0; e < kModel; ++e) weight(e, to, d) = weight(e, from, d);
    }
  }

  /// z_to R and R^T w_o in two features: the same write in another basis.
  void rotate(index_t head, double angle) {
    const auto c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
    const auto turn = [&](float& x, float& y) {
      const float before = x;
      x = c * before + s * y;
      y = c * y - s * before;
    };
    for (index_t i = 0; i < num_tokens; ++i) turn(output(i, head, 1), output(i, head, 4));
    for (index_t e = 0; e < kModel; ++e) turn(weight(e, head, 1), weight(e, head, 4));
  }

  HeadProducts products(index_t begin, index_t end) const {
    HeadProducts result(z.shape(1));
    result.add(z.view().slice(0, begin, end));
    return result;
  }
  HeadProducts products() const { return products(0, num_tokens); }
};

}  // namespace multihead::lens
