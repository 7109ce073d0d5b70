// Each family of encoders against PyTorch and transformers: families.py says how the checkpoints were made.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "models/checkpoint_edits.hpp"
#include "multihead/encoder.hpp"
#include "multihead/safetensors.hpp"

namespace multihead {
namespace {

constexpr double kTolerance = 2e-5;

template <int R>
double largest_difference(const Tensor<float, R>& a, const Tensor<float, R>& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double worst = a.shape() == b.shape() ? 0 : INFINITY;
  for (index_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = std::abs(double{a.data()[i]} - b.data()[i]);
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  return worst;
}

// Zeroes what stands at padded tokens along `axis` of [B, ..]: transformers computes something there, we do not.
template <int R>
void clear_padding(Tensor<float, R>& x, int axis, TensorView<const index_t, 1> lengths) {
  index_t inner = 1;
  for (int a = axis + 1; a < R; ++a) inner *= x.shape(a);
  for (index_t i = 0; i < x.size(); ++i) {
    const index_t token = i / inner % x.shape(axis), b = i / (x.size() / x.shape(0));
    if (token >= lengths(b)) x.data()[i] = 0;
  }
}

// The largest differences of hidden states and probabilities from the folder's expected.safetensors.
double largest_difference(const Encoder& encoder, const Safetensors& expected) {
  const auto lengths = expected.view<index_t, 1>("lengths");
  EncoderInput input{.token_ids = expected.view<index_t, 2>("ids"), .lengths = lengths};
  if (expected.find("types")) input.token_types = expected.view<index_t, 2>("types");
  const EncoderOutput out = encoder.forward(input, {.capture = {.hidden = true, .probs = true}});

  double worst = 0;
  const Tensor<float, 4> all_hidden = expected.read<float, 4>("hidden");
  for (index_t i = 0; i < all_hidden.shape(0); ++i) {
    Tensor<float, 3> hidden({all_hidden.shape(1), all_hidden.shape(2), all_hidden.shape(3)});
    std::copy_n(&all_hidden(i, 0, 0, 0), hidden.size(), hidden.data());
    clear_padding(hidden, 1, lengths);
    worst = std::max(worst, largest_difference(out.hidden[static_cast<std::size_t>(i)], hidden));
  }
  for (std::size_t layer = 0; layer < out.heads.size(); ++layer) {
    Tensor<float, 4> probs = expected.read<float, 4>("probs." + std::to_string(layer));
    clear_padding(probs, 2, lengths);
    worst = std::max(worst, largest_difference(out.heads[layer].probs, probs));
  }
  return worst;
}

double difference_of(const std::string& family, const std::filesystem::path& folder) {
  return largest_difference(load_encoder(folder), load_safetensors(golden_folder(family) / "expected.safetensors"));
}

class Family : public testing::TestWithParam<std::string> {};

TEST_P(Family, MatchesPyTorch) { EXPECT_LT(difference_of(GetParam(), golden_folder(GetParam())), kTolerance); }

INSTANTIATE_TEST_SUITE_P(Checkpoints, Family,
                         testing::Values("bert", "bert_bf16", "bert_pruned", "roberta", "distilbert"));

TEST(Family, PrunedLayersKeepTheNumbersOfTheirHeads) {
  const Encoder encoder = load_encoder(golden_folder("bert_pruned"));
  EXPECT_EQ(encoder.layers()[0].attention.heads().original_heads, (std::vector<index_t>{0, 2, 3}));
  EXPECT_EQ(encoder.layers()[1].attention.heads().original_heads, (std::vector<index_t>{1}));
  EXPECT_EQ(encoder.layers()[1].attention.head(0).w_q.shape(0), 8);
}

TEST(Family, PrunedLayersLoadWithoutTheListToo) {
  const TemporaryFolder folder;
  copy_checkpoint("bert_pruned", folder, {.config = [](nlohmann::json& config) { config.erase("pruned_heads"); }});
  EXPECT_LT(difference_of("bert_pruned", folder.path()), kTolerance);
}

// Old and new names, with and without prefix, and a tensor that only looks as if its name were old.
TEST(Family, OldNamesAndPrefixesGiveTheSameNumbers) {
  for (const std::string prefix : {"", "bert."}) {
    for (const bool old : {false, true}) {
      const TemporaryFolder folder;
      copy_checkpoint("bert", folder, {.rename = [&](const std::string& name) {
                        const auto is = [&](const char* end) { return old && name.ends_with(end); };
                        const std::string base = prefix + name.substr(0, name.rfind('.'));
                        if (is("LayerNorm.weight")) return base + ".gamma";
                        if (is("LayerNorm.bias")) return base + ".beta";
                        return prefix + name;
                      }});
      EXPECT_EQ(difference_of("bert", folder.path()), difference_of("bert", golden_folder("bert")))
          << "prefix '" << prefix << "', " << (old ? "gamma and beta" : "weight and bias");
    }
  }
}

TEST(Family, OnlyNormsHaveOldNames) {
  const TemporaryFolder folder;
  copy_checkpoint("bert", folder, {.rename = [](const std::string& name) {
                    return name == "encoder.layer.1.output.dense.weight" ? "encoder.layer.1.output.dense.gamma" : name;
                  }});
  EXPECT_EQ(error_of<CheckpointError>([&] { load_encoder(folder.path()); }),
            "load_encoder: every parameter of the family must be in the checkpoint, got num_missing=1, "
            "missing=\"encoder.layer.1.output.dense.weight\" (\"" +
                folder.path().string() + "\")");
}

TEST(Family, ShardsGiveTheSameNumbers) {
  const TemporaryFolder folder;
  copy_checkpoint("bert", folder, {.num_shards = 3});
  EXPECT_EQ(difference_of("bert", folder.path()), difference_of("bert", golden_folder("bert")));
}

TEST(Encoder, ABatchEqualsItsSequencesBitForBit) {
  const Encoder encoder = load_encoder(golden_folder("bert"));
  const std::vector<std::vector<index_t>> texts = {{3, 4, 5, 6, 7, 8, 9}, {10}, {}, {11, 12, 13}};
  const TokenBatch batch = pad_batch(texts, 0);
  const Capture capture{.hidden = true, .probs = true, .head_outputs = true};
  Threads threads(3);
  const EncoderOutput together = encoder.forward(batch.input(), {.capture = capture, .threads = &threads});
  Encoder packed = load_encoder(golden_folder("bert"));
  packed.pack_weights(&threads);
  const EncoderOutput of_packed = packed.forward(batch.input(), {.capture = capture, .threads = &threads});
  EXPECT_EQ(std::memcmp(of_packed.last_hidden.data(), together.last_hidden.data(),
                        sizeof(float) * static_cast<std::size_t>(together.last_hidden.size())),
            0)
      << "packed weights";
  for (std::size_t b = 0; b < texts.size(); ++b) {
    const auto length = static_cast<index_t>(texts[b].size());
    const TokenBatch one = pad_batch({&texts[b], 1});
    const EncoderOutput alone = encoder.forward(one.input(), {.capture = capture});
    const auto at = static_cast<index_t>(b);
    for (index_t i = 0; i < length; ++i) {
      for (index_t e = 0; e < 32; ++e) EXPECT_EQ(alone.last_hidden(0, i, e), together.last_hidden(at, i, e));
      for (index_t h = 0; h < 4; ++h) {
        for (index_t j = 0; j < length; ++j) {
          EXPECT_EQ(alone.heads[1].probs(0, h, i, j), together.heads[1].probs(at, h, i, j));
        }
        for (index_t d = 0; d < 8; ++d) {
          EXPECT_EQ(alone.heads[1].outputs(0, i, h, d), together.heads[1].outputs(at, i, h, d));
        }
      }
    }
    for (index_t i = length; i < 7; ++i) EXPECT_EQ(together.last_hidden(at, i, 0), 0) << "padding is 0";
  }
}

TEST(Encoder, KeepsTheHeadsThatWereAskedFor) {
  const Encoder encoder = load_encoder(golden_folder("bert"));
  const TokenBatch batch = pad_batch(std::vector<std::vector<index_t>>{{3, 4, 5}});
  const Capture all{.probs = true, .head_outputs = true};
  Capture some = all;
  some.heads = {{{1, 2}, {1, 0}}};
  const EncoderOutput full = encoder.forward(batch.input(), {.capture = all});
  const EncoderOutput part = encoder.forward(batch.input(), {.capture = some});
  EXPECT_TRUE(part.heads[0].heads.empty());
  EXPECT_EQ(part.heads[0].probs.size(), 0);
  EXPECT_EQ(part.heads[1].heads, (std::vector<index_t>{2, 0}));
  for (index_t i = 0; i < 3; ++i) {
    for (index_t j = 0; j < 3; ++j) {
      EXPECT_EQ(part.heads[1].probs(0, 0, i, j), full.heads[1].probs(0, 2, i, j));
      EXPECT_EQ(part.heads[1].probs(0, 1, i, j), full.heads[1].probs(0, 0, i, j));
    }
    for (index_t d = 0; d < 8; ++d) EXPECT_EQ(part.heads[1].outputs(0, i, 0, d), full.heads[1].outputs(0, i, 2, d));
  }
  EXPECT_EQ(largest_difference(part.last_hidden, full.last_hidden), 0) << "capturing changes nothing";
}

TEST(Encoder, GatesOfZeroRemoveHeads) {
  const Encoder encoder = load_encoder(golden_folder("bert"));
  Encoder pruned = load_encoder(golden_folder("bert"));
  const index_t gone[] = {1, 3};
  pruned.layers()[0].attention.remove_heads(gone);
  Tensor<float, 1> gate({4});
  gate(0) = gate(2) = 1;
  const std::vector<TensorView<const float, 1>> gates = {gate.view(), {}};
  const TokenBatch batch = pad_batch(std::vector<std::vector<index_t>>{{3, 4, 5, 6}});
  const EncoderOutput gated = encoder.forward(batch.input(), {.gates = gates});
  EXPECT_LT(largest_difference(gated.last_hidden, pruned.forward(batch.input()).last_hidden), 1e-5);
  EXPECT_GT(largest_difference(gated.last_hidden, encoder.forward(batch.input()).last_hidden), 1e-2);
}

}  // namespace
}  // namespace multihead
