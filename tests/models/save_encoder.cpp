// An encoder that is saved opens again and is the same, with the heads that were left to it.
#include "multihead/save_encoder.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "models/checkpoint_edits.hpp"
#include "multihead/text_encoder.hpp"

namespace multihead {
namespace {

namespace fs = std::filesystem;

Tensor<float, 3> last_hidden(const Encoder& encoder, std::span<const TensorView<const float, 1>> gates = {}) {
  const TokenBatch batch = pad_batch(std::vector<std::vector<index_t>>{{3, 4, 5, 6, 9, 2}, {7, 3}});
  return encoder.forward(batch.input(), {.gates = gates}).last_hidden;
}

double largest_difference(const Tensor<float, 3>& a, const Tensor<float, 3>& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double worst = 0;
  for (index_t n = 0; n < a.size(); ++n) worst = std::max(worst, std::abs(double{a.data()[n]} - b.data()[n]));
  return worst;
}

// What lies in a folder, hidden names and the content of folders included.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(entry.path().lexically_relative(folder).string());
  }
  std::ranges::sort(names);
  return names;
}

// Heads 1, 3 of layer 0 and 0, 1, 2 of layer 1, and gates that are 0 for them.
struct Removal {
  Tensor<float, 1> first{{4}}, second{{4}};
  std::vector<TensorView<const float, 1>> gates;

  Removal() {
    first(0) = first(2) = second(3) = 1;
    gates = {first.view(), second.view()};
  }
  static void apply(Encoder& encoder) {
    encoder.layers()[0].attention.remove_heads(std::array<index_t, 2>{1, 3});
    encoder.layers()[1].attention.remove_heads(std::array<index_t, 3>{0, 1, 2});
  }
};

class SaveFamily : public testing::TestWithParam<std::string> {};

TEST_P(SaveFamily, OpensAgainWithTheSameBits) {
  const TemporaryFolder folder;
  const fs::path source = golden_folder(GetParam()), copy = folder / "copy";
  const Encoder encoder = load_encoder(source);
  save_encoder(encoder, source, copy);
  EXPECT_EQ(largest_difference(last_hidden(load_encoder(copy)), last_hidden(encoder)), 0);
  const Safetensors before = load_safetensors(source), after = load_safetensors(copy);
  EXPECT_EQ(after.names(), before.names());
  for (const std::string& name : before.names()) {
    EXPECT_EQ(after.at(name).dtype, before.at(name).dtype) << name;
    EXPECT_TRUE(std::ranges::equal(after.at(name).data, before.at(name).data)) << name;
  }
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"copy/config.json", "copy/model.safetensors"}));
}

TEST_P(SaveFamily, SlicedWeightsEqualGatesOfZero) {
  const TemporaryFolder folder;
  const fs::path source = golden_folder(GetParam()), smaller = folder / "smaller";
  const Removal removal;
  Encoder encoder = load_encoder(source);
  const Tensor<float, 3> gated = last_hidden(encoder, removal.gates), whole = last_hidden(encoder);
  Removal::apply(encoder);
  save_encoder(encoder, source, smaller);
  const Encoder loaded = load_encoder(smaller);
  EXPECT_LT(largest_difference(last_hidden(loaded), gated), 1e-5);
  EXPECT_GT(largest_difference(whole, gated), 1e-2) << "these heads do something";
  EXPECT_EQ(loaded.layers()[0].attention.heads().original_heads, (std::vector<index_t>{0, 2}));
  EXPECT_EQ(loaded.layers()[1].attention.heads().original_heads, (std::vector<index_t>{3}));
  EXPECT_LT(fs::file_size(smaller / "model.safetensors"), fs::file_size(source / "model.safetensors"));
}

TEST_P(SaveFamily, ZeroedFoldersHaveTheShapesOfTheDesign) {
  const TemporaryFolder folder;
  const fs::path source = golden_folder(GetParam()), zeroed = folder / "zeroed";
  Encoder encoder = load_encoder(source);
  Removal::apply(encoder);
  save_encoder(encoder, source, zeroed, HeadStorage::zeroed);
  const Encoder loaded = load_encoder(zeroed);
  EXPECT_LT(largest_difference(last_hidden(loaded), last_hidden(encoder)), 1e-5);
  const Safetensors before = load_safetensors(source), after = load_safetensors(zeroed);
  for (const std::string& name : before.names()) EXPECT_EQ(after.at(name).shape, before.at(name).shape) << name;
  for (const EncoderLayer& layer : loaded.layers()) EXPECT_EQ(layer.attention.num_heads(), 4);
  const auto head = loaded.layers()[0].attention.head(1);
  for (index_t d = 0; d < 8; ++d) {
    EXPECT_EQ(head.w_q(d, 5), 0);
    EXPECT_EQ(head.w_o(5, d), 0);
    EXPECT_EQ(head.b_v(d), 0);
  }
  const auto config = nlohmann::json::parse(read_bytes(zeroed / "config.json"));
  EXPECT_EQ(config["zeroed_heads"], nlohmann::json::parse(R"({"0": [1, 3], "1": [0, 1, 2]})"));
  EXPECT_FALSE(config.contains("pruned_heads"));
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, SaveFamily, testing::Values("bert", "bert_bf16", "roberta", "distilbert"));

TEST(SaveEncoder, APrunedFolderKeepsItsNumbersAndLosesMore) {
  const TemporaryFolder folder;
  const fs::path source = golden_folder("bert_pruned");
  Encoder encoder = load_encoder(source);
  const std::vector<index_t> before = encoder.layers()[0].attention.heads().original_heads;
  ASSERT_GE(before.size(), 2u);
  encoder.layers()[0].attention.remove_heads(std::array{before.front()});
  save_encoder(encoder, source, folder / "smaller");
  save_encoder(encoder, source, folder / "zeroed", HeadStorage::zeroed);
  const Encoder smaller = load_encoder(folder / "smaller");
  EXPECT_EQ(smaller.layers()[0].attention.heads().original_heads,
            std::vector<index_t>(before.begin() + 1, before.end()));
  EXPECT_EQ(largest_difference(last_hidden(smaller), last_hidden(encoder)), 0);
  const Encoder zeroed = load_encoder(folder / "zeroed");
  EXPECT_LT(largest_difference(last_hidden(zeroed), last_hidden(encoder)), 1e-5);
  EXPECT_EQ(zeroed.layers()[0].attention.num_heads(), 4) << "heads that were lost before are zeros as well";
}

TEST(SaveEncoder, ALayerMayHaveLostAllHeads) {
  const TemporaryFolder folder;
  const fs::path source = golden_folder("bert");
  Encoder encoder = load_encoder(source);
  encoder.layers()[0].attention.remove_heads(std::array<index_t, 4>{0, 1, 2, 3}, nn::RemoveAll::allow);
  for (const auto& [name, storage] : {std::pair("sliced", HeadStorage::sliced), {"zeroed", HeadStorage::zeroed}}) {
    save_encoder(encoder, source, folder / name, storage);
    EXPECT_LT(largest_difference(last_hidden(load_encoder(folder / name)), last_hidden(encoder)), 1e-5) << name;
  }
  EXPECT_EQ(load_encoder(folder / "sliced").layers()[0].attention.num_heads(), 0);
}

TEST(SaveEncoder, NamesAndForeignTensorsStay) {
  const TemporaryFolder folder, copy;
  copy_checkpoint("bert", folder,
                  {.rename =
                       [](const std::string& name) {
                         const bool is_old = name == "embeddings.LayerNorm.weight";
                         return is_old ? std::string("bert.embeddings.LayerNorm.gamma") : "bert." + name;
                       },
                   .tensors =
                       [](std::vector<TensorToSave>& tensors) {
                         static const float kWeights[] = {1, 2, 3};
                         tensors.push_back({"classifier.weight", {"F32", {3}, std::as_bytes(std::span(kWeights))}});
                       },
                   .num_shards = 3});
  Encoder encoder = load_encoder(folder.path());
  Removal::apply(encoder);
  save_encoder(encoder, folder.path(), copy / "copy");
  EXPECT_EQ(load_safetensors(copy / "copy").names(), load_safetensors(folder.path()).names());
  EXPECT_EQ(load_safetensors(copy / "copy").metadata().at("format"), "pt") << "transformers asks for it";
  EXPECT_EQ(largest_difference(last_hidden(load_encoder(copy / "copy")), last_hidden(encoder)), 0);
  EXPECT_EQ(names_in(copy.path()), (std::vector<std::string>{"copy/config.json", "copy/model.safetensors"}));
}

TEST(SaveEncoder, TokenizerAndModulesAreCopied) {
  const TemporaryFolder folder;
  fs::copy(golden_folder("bert"), folder / "model");
  const auto put = [&](const std::string& name, const std::string& text) {
    fs::create_directories((folder / name).parent_path());
    folder.write(name, text);
  };
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char c = 'a'; c < 'z'; ++c) vocabulary += std::string(1, c) + "\n";
  put("model/vocab.txt", vocabulary);
  put("model/tokenizer_config.json", R"({"model_max_length": 12})");
  put("model/modules.json",
      R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
          {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])");
  put("model/1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  put("model/sentence_bert_config.json", R"({"max_seq_length": 9})");
  put("model/pytorch_model.bin", "not ours");
  put("model/README.md", "of the model before");
  put("model/model.safetensors.index.json", "{}");
  const TextEncoder before = load_text_encoder(folder / "model");
  save_encoder(before.encoder, folder / "model", folder / "copy");
  EXPECT_EQ(names_in(folder / "copy"),
            (std::vector<std::string>{"1_Pooling/config.json", "config.json", "model.safetensors", "modules.json",
                                      "sentence_bert_config.json", "tokenizer_config.json", "vocab.txt"}));
  const TextEncoder after = load_text_encoder(folder / "copy");
  EXPECT_EQ(after.encode("a b c").ids, before.encode("a b c").ids);
  EXPECT_EQ(after.pooling.pooling, Pooling::first);
  EXPECT_EQ(after.cut.max_length, 9);
}

TEST(SaveEncoder, WhatIsTooLargeForF16BecomesF32) {
  const TemporaryFolder folder;
  std::vector<std::vector<f16>> halves;
  copy_checkpoint("bert", folder, {.tensors = [&](std::vector<TensorToSave>& tensors) {
                    for (TensorToSave& each : tensors) {
                      if (each.tensor.dtype != "F32") continue;
                      std::vector<f16>& half = halves.emplace_back();
                      for (std::size_t at = 0; at < each.tensor.data.size(); at += sizeof(float)) {
                        float x;
                        std::memcpy(&x, each.tensor.data.data() + at, sizeof x);
                        half.push_back(to_f16(x));
                      }
                      each.tensor.dtype = "F16";
                      each.tensor.data = std::as_bytes(std::span(half));
                    }
                  }});
  Encoder encoder = load_encoder(folder.path());
  encoder.layers()[0].attention.parameters().w_o(1, 2) = 7e4f;
  save_encoder(encoder, folder.path(), folder / "copy");
  const Safetensors saved = load_safetensors(folder / "copy");
  EXPECT_EQ(saved.at("encoder.layer.0.attention.output.dense.weight").dtype, "F32");
  EXPECT_EQ(saved.at("encoder.layer.1.attention.output.dense.weight").dtype, "F16");
  EXPECT_EQ(largest_difference(last_hidden(load_encoder(folder / "copy")), last_hidden(encoder)), 0);
}

TEST(SaveEncoder, RefusesWhatDoesNotFit) {
  const TemporaryFolder folder;
  Encoder encoder = load_encoder(golden_folder("bert"));
  const std::string other = golden_folder("roberta").string();
  copy_checkpoint("bert", folder, {.config = [](nlohmann::json& config) { config["num_attention_heads"] = 2; }});
  EXPECT_EQ(error_of<CheckpointError>([&] { save_encoder(encoder, folder.path(), folder / "copy"); }),
            "save_encoder: the encoder must be of the design of the folder, got size=num_heads, encoder=4, folder=2 "
            "(\"" +
                folder.path().string() + "\")");
  encoder.layers()[1].attention.parameters().b_q(3) = NAN;
  EXPECT_EQ(
      error_of<ShapeError>([&] { save_encoder(encoder, golden_folder("bert"), folder / "copy"); }),
      "save_encoder: weights must be finite, got tensor=\"encoder.layer.1.attention.self.query.bias\", element=3, "
      "value=nan");
  EXPECT_FALSE(fs::exists(folder / "copy"));
}

}  // namespace
}  // namespace multihead
