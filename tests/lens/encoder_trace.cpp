// A forward whose steps are kept, against whole forwards with other gates.
#include "multihead/encoder_trace.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "lens/small_model.hpp"
#include "support/error_text.hpp"

namespace multihead::lens {
namespace {

constexpr std::array<index_t, 3> kLengths = {7, 3, 11};

TokenBatch some_batch(std::span<const index_t> lengths = kLengths) {
  test::Random random(test::run_seed());
  std::vector<std::vector<index_t>> ids;
  for (const index_t length : lengths) {
    std::vector<index_t>& row = ids.emplace_back();
    for (index_t i = 0; i < length; ++i) row.push_back(random.integer(0, 29));
  }
  return pad_batch(ids);
}

/// Three layers of three heads; head 1 of the middle one is gone.
Encoder encoder_with_a_head_removed() {
  Encoder encoder = small_encoder(30, 3, 3);
  encoder.layers()[1].attention.remove_heads(std::array<index_t, 1>{1});
  return encoder;
}

struct Gates {
  std::vector<Tensor<float, 1>> factors;
  explicit Gates(const Encoder& encoder) {
    for (std::size_t layer = 0; layer < encoder.layers().size(); ++layer) {
      Tensor<float, 1>& of_layer =
          factors.emplace_back(Tensor<float, 1>({encoder.layers()[layer].attention.num_heads()}));
      for (index_t h = 0; h < of_layer.size(); ++h) of_layer(h) = 0.8f + 0.1f * static_cast<float>(h + index_t(layer));
    }
  }
  std::vector<TensorView<const float, 1>> views() const { return {factors.begin(), factors.end()}; }
};

/// last_hidden of a whole forward, without padding
std::vector<float> whole(const Encoder& encoder, const TokenBatch& batch, const Gates& gates) {
  const auto views = gates.views();
  const EncoderOutput output = encoder.forward(batch.input(), {.gates = views});
  std::vector<float> rows;
  for (index_t b = 0; b < batch.lengths.size(); ++b) {
    const float* const first = &output.last_hidden(b, 0, 0);
    rows.insert(rows.end(), first, first + batch.lengths(b) * output.last_hidden.shape(2));
  }
  return rows;
}

std::vector<float> numbers(TensorView<const float, 2> x) { return {x.data(), x.data() + x.size()}; }
std::vector<float> numbers_of(const Tensor<float, 2>& x) { return numbers(x.view()); }

TEST(EncoderTrace, HasTheBitsOfAForward) {
  const Encoder encoder = encoder_with_a_head_removed();
  const TokenBatch batch = some_batch();
  const Gates gates(encoder);
  const auto views = gates.views();
  const EncoderTrace trace(encoder, batch.input(), {.gates = views});
  EXPECT_EQ(numbers(trace.last_hidden()), whole(encoder, batch, gates));
  EXPECT_EQ(trace.offsets()(3), 21);
}

TEST(EncoderTrace, RunsFromALayerHaveTheBitsOfAWholeForward) {
  for (const bool packed : {false, true}) {
    Encoder encoder = encoder_with_a_head_removed();
    if (packed) encoder.pack_weights();
    const TokenBatch batch = some_batch();
    for (std::size_t layer = 0; layer < 3; ++layer) {
      Gates gates(encoder);
      const auto views = gates.views();
      const EncoderTrace trace(encoder, batch.input(), {.gates = views});
      const TensorView<const float, 3> outputs = trace.head_outputs(index_t(layer));
      Tensor<float, 3> heads(outputs.shape());
      gates.factors[layer](1) = 0;
      for (index_t n = 0; n < heads.size(); ++n) {
        heads.data()[n] = outputs.data()[n] * gates.factors[layer](n / heads.shape(2) % heads.shape(1));
      }
      EXPECT_EQ(numbers_of(trace.run_from(index_t(layer), heads)), whole(encoder, batch, gates));
      // The change passes through the maps of later layers too; after the last layer there are none.
      const bool same =
          numbers_of(trace.run_from(index_t(layer), heads, LaterMaps::recorded)) == whole(encoder, batch, gates);
      EXPECT_EQ(same, layer == 2);
    }
  }
}

TEST(EncoderTrace, RecordedMapsWithoutAChangeGiveTheSameStates) {
  const Encoder encoder = encoder_with_a_head_removed();
  const TokenBatch batch = some_batch();
  const Gates gates(encoder);
  const auto views = gates.views();
  const EncoderTrace trace(encoder, batch.input(), {.gates = views});
  Tensor<float, 3> heads(trace.head_outputs(0).shape());
  for (index_t n = 0; n < heads.size(); ++n) {
    heads.data()[n] = trace.head_outputs(0).data()[n] * gates.factors[0](n / heads.shape(2) % heads.shape(1));
  }
  EXPECT_EQ(numbers_of(trace.run_from(0, heads, LaterMaps::recorded)), numbers(trace.last_hidden()));
}

// loss = sum over tokens of <direction, last_hidden>
TEST(EncoderTrace, GateGradientsAreDifferences) {
  const Encoder encoder = encoder_with_a_head_removed();
  const TokenBatch batch = some_batch();
  Gates gates(encoder);
  const auto views = gates.views();
  const EncoderTrace trace(encoder, batch.input(), {.gates = views});
  test::Random random(test::run_seed());
  Tensor<float, 2> direction(trace.last_hidden().shape());
  for (index_t n = 0; n < direction.size(); ++n) direction.data()[n] = static_cast<float>(random.uniform());
  const auto found = trace.gate_gradients(direction);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[1].shape(), (std::array<index_t, 2>{3, 2}));

  const index_t features = direction.shape(1);
  double largest = 0;
  for (const auto& of_layer : found) {
    for (index_t n = 0; n < of_layer.size(); ++n) largest = std::max(largest, std::abs(double(of_layer.data()[n])));
  }
  constexpr float kStep = 1.0f / 256;
  for (std::size_t layer = 0; layer < 3; ++layer) {
    for (index_t h = 0; h < found[layer].shape(1); ++h) {
      float& gate = gates.factors[layer](h);
      const float before = gate;
      // fourth-order central differences: the error in f32 is that of rounding
      std::array<std::vector<float>, 4> at;
      constexpr std::array<float, 4> kSteps = {-2, -1, 1, 2};
      for (std::size_t n = 0; n < 4; ++n) gate = before + kSteps[n] * kStep, at[n] = whole(encoder, batch, gates);
      gate = before;
      for (index_t b = 0; b < 3; ++b) {
        double expected = 0;
        for (index_t n = trace.offsets()(b) * features; n < trace.offsets()(b + 1) * features; ++n) {
          const auto i = static_cast<std::size_t>(n);
          const double slope = (double(at[0][i]) - at[3][i] + 8 * (double(at[2][i]) - at[1][i])) / (12 * kStep);
          expected += slope * direction.data()[n];
        }
        EXPECT_NEAR(found[layer](b, h), expected, 1e-3 * largest) << layer << "." << h << " of sequence " << b;
      }
    }
  }
}

TEST(EncoderTrace, GateGradientsDoNotDependOnTheBatch) {
  const Encoder encoder = small_encoder(30, 2, 3);
  const TokenBatch batch = some_batch(), alone = some_batch(std::array<index_t, 1>{7});
  const EncoderTrace all(encoder, batch.input()), one(encoder, alone.input());
  const auto gradient = [](const EncoderTrace& trace) {
    Tensor<float, 2> d(trace.last_hidden().shape());
    for (index_t n = 0; n < d.size(); ++n) d.data()[n] = static_cast<float>(n % 7) - 2;
    return trace.gate_gradients(d);
  };
  const auto of_all = gradient(all), of_one = gradient(one);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (index_t h = 0; h < 3; ++h) EXPECT_EQ(of_all[layer](0, h), of_one[layer](0, h));
  }
}

TEST(EncoderTrace, RefusesInWords) {
  const Encoder encoder = small_encoder(30);
  const TokenBatch batch = some_batch();
  const EncoderTrace trace(encoder, batch.input());
  EXPECT_EQ(test::error_of([&] { trace.run_from(2, trace.head_outputs(0)); }),
            "EncoderTrace::run_from: there must be such a layer, got layer=2, num_layers=2");
  EXPECT_EQ(test::error_of([&] { trace.run_from(0, trace.head_outputs(0).slice(0, 0, 4)); }),
            "EncoderTrace::run_from: heads must be [tokens, num_heads, head_dim], got heads=[4, 2, 4], "
            "expected=[21, 2, 4]");
  const Tensor<float, 2> wrong({3, 8});
  EXPECT_EQ(test::error_of([&] { trace.gate_gradients(wrong); }),
            "EncoderTrace::gate_gradients: dlast_hidden must have the shape of last_hidden, got dlast_hidden=[3, 8], "
            "last_hidden=[21, 8]");
}

}  // namespace
}  // namespace multihead::lens
