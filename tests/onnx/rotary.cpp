// RotaryEmbedding beyond the public cases: half types, strides, a quarter turn by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "onnx/definition.hpp"
#include "support/random.hpp"

namespace multihead {
namespace {

std::vector<double> values(const OnnxView& view) { return test::onnx_values<double>(view); }

TEST(OnnxRotary, AQuarterTurnByHand) {
  Tensor<float, 4> x({1, 1, 1, 6});
  for (index_t d = 0; d < 6; ++d) x(0, 0, 0, d) = static_cast<float>(d + 1);
  const float zeros[] = {0, 0}, ones[] = {1, 1};
  const TensorView<const float, 3> cos(zeros, {1, 1, 2}), sin(ones, {1, 1, 2});
  // (a, b) becomes (-b, a); the last two features are left alone.
  EXPECT_EQ(values(onnx_rotary_embedding({x, cos, sin}, {.rotary_embedding_dim = 4})),
            (std::vector<double>{-3, -4, 1, 2, 5, 6}));
  EXPECT_EQ(values(onnx_rotary_embedding({x, cos, sin}, {.interleaved = true, .rotary_embedding_dim = 4})),
            (std::vector<double>{-2, 1, -4, 3, 5, 6}));
}

// Ranks, pairings, widths, types and position ids drawn at random, against the formula in double.
TEST(OnnxRotary, AgreesWithTheFormula) {
  test::Random random(test::run_seed());
  for (int n = 0; n < 200; ++n) {
    const index_t B = random.integer(0, 3), H = random.integer(1, 3), S = random.integer(0, 5);
    const index_t D = 2 * random.integer(1, 9), R = 2 * random.integer(1, D / 2), positions = 7;
    const bool rank4 = random.chance(0.5), interleaved = random.chance(0.5), with_ids = random.chance(0.5);
    const auto type = random.pick(std::array{OnnxType::f32, OnnxType::f16, OnnxType::bf16});
    const auto fill = [&](std::vector<index_t> shape) {
      OnnxTensor tensor(type, std::move(shape));
      visit_onnx_type(type, [&](auto element) {
        using T = decltype(element);
        for (index_t i = 0; i < tensor.size(); ++i) tensor.data<T>()[i] = output_value<T>(random.uniform());
      });
      return tensor;
    };
    const OnnxTensor x = fill(rank4 ? std::vector<index_t>{B, H, S, D} : std::vector<index_t>{B, S, H * D});
    const std::vector<index_t> cache =
        with_ids ? std::vector<index_t>{positions, R / 2} : std::vector<index_t>{B, S, R / 2};
    const OnnxTensor cos = fill(cache), sin = fill(cache);
    Tensor<index_t, 2> ids({B, S});
    for (index_t i = 0; i < ids.size(); ++i) ids.data()[i] = random.integer(0, positions - 1);

    OnnxRotaryInput input{x, cos, sin};
    if (with_ids) input.position_ids = ids;
    const OnnxTensor y = onnx_rotary_embedding(input, {.interleaved = interleaved,
                                                       .rotary_embedding_dim = R == D && random.chance(0.5) ? 0 : R,
                                                       .num_heads = rank4 ? std::optional<index_t>() : H});
    EXPECT_EQ(y.type(), type);
    ASSERT_EQ(y.shape(), x.shape());
    const auto from = values(x), got = values(y), c = values(cos), s = values(sin);
    const double unit = type == OnnxType::f32 ? 0x1p-24 : type == OnnxType::f16 ? 0x1p-11 : 0x1p-8;
    for (index_t b = 0; b < B; ++b)
      for (index_t t = 0; t < S; ++t)
        for (index_t h = 0; h < H; ++h)
          for (index_t d = 0; d < D; ++d) {
            const auto at = [&](index_t feature) {
              return static_cast<std::size_t>((rank4 ? (b * H + h) * S + t : (b * S + t) * H + h) * D + feature);
            };
            double want = from[at(d)];
            if (d < R) {
              const index_t pair = interleaved ? d / 2 : d % (R / 2);
              const bool first = interleaved ? d % 2 == 0 : d < R / 2;
              const index_t other = interleaved ? d ^ 1 : first ? d + R / 2 : d - R / 2;
              const auto row = static_cast<std::size_t>((with_ids ? ids(b, t) : b * S + t) * (R / 2) + pair);
              want = c[row] * want + (first ? -1 : 1) * s[row] * from[at(other)];
            }
            ASSERT_NEAR(got[at(d)], want, 4 * unit) << "of values in [-1, 1)";
          }
  }
}

}  // namespace
}  // namespace multihead
