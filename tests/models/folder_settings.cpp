// config.json and weights: each setting that changes hidden states is honoured or refused, and no content of a file
// brings down the reader.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "models/checkpoint_edits.hpp"
#include "multihead/text_encoder.hpp"

namespace multihead {
namespace {

// A tiny model with all the files that a folder can have.
void write_model(const TemporaryFolder& folder, const CheckpointEdits& edits = {}) {
  copy_checkpoint("bert", folder, edits);
  std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char c = 'a'; c < 'z'; ++c) vocab.append(1, c).append("\n");
  folder.write("vocab.txt", vocab);
}

// Without the folder's name in it.
template <class E>
std::string load_error(const TemporaryFolder& folder) {
  std::string text = error_of<E>([&] { load_text_encoder(folder.path()); });
  const std::string path = folder.path().string();
  for (auto at = text.find(path); at != text.npos; at = text.find(path)) text.replace(at, path.size(), "DIR");
  return text;
}

TEST(FolderSettings, OfConfigAreHonouredOrRefused) {
  const auto refused = [](const std::string& key, const nlohmann::json& value, const std::string& handled) {
    const TemporaryFolder folder;
    write_model(folder, {.config = [&](nlohmann::json& config) { config[key] = value; }});
    std::string shown;
    for (const char c : value.dump()) shown += (c == '"' ? "\\" : "") + std::string(1, c);
    EXPECT_EQ(load_error<UnsupportedError>(folder),
              "load_encoder_config: a setting must have a value that is handled, got " + key + "=\"" + shown +
                  "\"; handled: " + handled + " (\"DIR/config.json\")");
  };
  refused("quantization_config", {{"quant_method", "gptq"}}, "{} or absent");
  refused("rope_scaling", {{"type", "linear"}}, "{} or absent");
  refused("rope_theta", 10000, "absent");
  refused("auto_map", {{"AutoModel", "modeling_x.X"}}, "{} or absent");
  const TemporaryFolder folder;
  write_model(folder, {.config = [](nlohmann::json& config) {
                config.update({{"auto_map", nullptr},
                               {"rope_scaling", nullptr},
                               {"hidden_dropout_prob", 0.5},
                               {"id2label", {{"0", "x"}}},
                               {"torch_dtype", "float16"},
                               {"position_embedding_type", "absolute"},
                               {"gradient_checkpointing", false}});
              }});
  EXPECT_EQ(load_text_encoder(folder.path()).encode("a b").ids, (std::vector<index_t>{2, 5, 6, 3}));
  folder.write("adapter_config.json", "{}");
  EXPECT_EQ(
      load_error<UnsupportedError>(folder),
      "load_encoder_config: the model must be complete, got found=adapter_config.json; merge the adapter into its "
      "base model first (merge_and_unload)");
}

TEST(FolderSettings, TwoNamesOfOneSizeMustAgree) {
  const TemporaryFolder folder;
  copy_checkpoint("distilbert", folder, {.config = [](nlohmann::json& config) {
                    config["hidden_size"] = config["dim"];
                    config.erase("dim");
                  }});
  EXPECT_EQ(load_encoder_config(folder.path()).d_model, 32);
  copy_checkpoint("distilbert", folder, {.config = [](nlohmann::json& config) { config["hidden_size"] = 64; }});
  EXPECT_EQ(error_of<CheckpointError>([&] { load_encoder_config(folder.path()); }),
            "load_encoder_config: two names of one size must say the same, got dim=32, hidden_size=64 (\"" +
                (folder / "config.json").string() + "\")");
}

TEST(FolderSettings, LongTextsAreCutWhereAndHowTheFilesSay) {
  const TemporaryFolder folder;
  write_model(folder);
  const auto cut = [&] {
    const EncodeOptions options = load_text_encoder(folder.path()).cut;
    return std::pair(*options.max_length, options.truncation_side);
  };
  EXPECT_EQ(cut(), std::pair(index_t{16}, Side::right));
  folder.write("tokenizer_config.json", R"({"max_len": 9, "truncation_side": "left"})");
  EXPECT_EQ(cut(), std::pair(index_t{9}, Side::left));
  EXPECT_EQ(load_text_encoder(folder.path()).encode("a b c d e f g h i").ids,
            (std::vector<index_t>{2, 7, 8, 9, 10, 11, 12, 13, 3}));
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 12, "do_lower_case": false})");
  EXPECT_EQ(cut(), std::pair(index_t{12}, Side::left)) << "it takes the place of the tokenizer's";
  EXPECT_EQ(load_text_encoder(folder.path(), {.sentence_vectors = false}).cut.max_length, 9);
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 99})");
  EXPECT_EQ(cut(), std::pair(index_t{16}, Side::left));
  for (const char* limit : {"0", "-3", "2.5"}) {
    folder.write("tokenizer_config.json", std::string(R"({"model_max_length": )") + limit + "}");
    EXPECT_EQ(load_error<CheckpointError>(folder),
              "load_encoder_config: the longest text must be a whole number of tokens, at least 1, got "
              "model_max_length=" +
                  std::string(limit) + " (\"DIR/tokenizer_config.json\")");
  }
}

TEST(FolderSettings, ModelsThatAreGivenNoTypesGetZeros) {
  const TemporaryFolder folder;
  write_model(folder);
  EXPECT_EQ(load_text_encoder(folder.path()).encode_pair("a", "b").type_ids, (std::vector<index_t>{0, 0, 0, 1, 1}));
  folder.write("tokenizer_config.json", R"({"model_input_names": ["input_ids", "attention_mask"]})");
  EXPECT_EQ(load_text_encoder(folder.path()).encode_pair("a", "b").type_ids, (std::vector<index_t>(5, 0)));
}

TEST(FolderSettings, WeightsMustBeFinite) {
  struct Case {
    const char* tensor;
    std::size_t element;
    float value;
    const char* shown;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Case& each : {Case{"embeddings.word_embeddings.weight", 959, NAN, "nan"},
                           {"encoder.layer.1.output.LayerNorm.bias", 0, -infinity, "-inf"},
                           {"encoder.layer.0.attention.self.key.weight", 1023, infinity, "inf"}}) {
    std::vector<std::byte> bytes;
    const TemporaryFolder folder;
    write_model(folder, {.tensors = [&](std::vector<TensorToSave>& tensors) {
                  for (TensorToSave& saved : tensors) {
                    if (saved.name != each.tensor) continue;
                    bytes.assign(saved.tensor.data.begin(), saved.tensor.data.end());
                    std::memcpy(bytes.data() + 4 * each.element, &each.value, 4);
                    saved.tensor.data = bytes;
                  }
                }});
    EXPECT_EQ(load_error<CheckpointError>(folder),
              std::string("load_encoder: weights must be finite as f32, got tensor=\"") + each.tensor +
                  "\", element=" + std::to_string(each.element) + ", value=" + each.shown + " (\"DIR\")");
  }
}

TEST(FolderSettings, WeightsMustHaveOneNameAndOneLayout) {
  const auto error = [](const std::string& tensor, const std::string& second) {
    const TemporaryFolder folder;
    write_model(folder, {.tensors = [&](std::vector<TensorToSave>& tensors) {
                  for (std::size_t i = 0; i < tensors.size(); ++i) {
                    if (tensors[i].name == tensor) return tensors.push_back({second, tensors[i].tensor});
                  }
                }});
    return load_error<CheckpointError>(folder);
  };
  EXPECT_EQ(error("embeddings.LayerNorm.weight", "embeddings.LayerNorm.gamma"),
            "load_encoder: a parameter must be stored under one name, got first=\"embeddings.LayerNorm.weight\", "
            "second=\"embeddings.LayerNorm.gamma\" (\"DIR\")");
  EXPECT_EQ(error("embeddings.word_embeddings.weight", "bert.embeddings.word_embeddings.weight"),
            "load_encoder: the checkpoint must hold one word embedding, got "
            "names=\"embeddings.word_embeddings.weight\" or \"bert.embeddings.word_embeddings.weight\" (\"DIR\")");
  const TemporaryFolder folder;
  write_model(folder, {.config = [](nlohmann::json& config) { config["type_vocab_size"] = 0; }});
  EXPECT_EQ(load_error<CheckpointError>(folder),
            "load_encoder: a tensor must have the shape that the config asks for, got "
            "tensor=\"embeddings.token_type_embeddings.weight\", shape=[2, 32], expected=[0, 32] (\"DIR\")");
}

// Whatever follows a NUL was never seen by parsers that end there.
TEST(FolderSettings, NothingFollowsJson) {
  const std::string config = read_bytes(golden_folder("bert") / "config.json");
  const std::pair<std::string, std::string> files[] = {
      {"config.json", config},
      {"tokenizer_config.json", "{}"},
      {"special_tokens_map.json", "{}"},
      {"added_tokens.json", "{}"},
      {"modules.json",
       R"([{"type":"sentence_transformers.models.Transformer"},{"type":"sentence_transformers.models.Pooling","path":"P"}])"},
      {"P/config.json", R"({"pooling_mode":"cls"})"},
      {"sentence_bert_config.json", "{}"},
      {"config_sentence_transformers.json", "{}"},
  };
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "P");
  write_model(folder);
  for (const auto& [name, content] : files) folder.write(name, content);
  EXPECT_EQ(load_text_encoder(folder.path()).pooling.pooling, Pooling::first);
  for (const auto& [name, content] : files) {
    SCOPED_TRACE(name);
    const std::string end = std::to_string(content.size()), where = " (\"DIR/" + name + "\")";
    for (const std::string& rest : {std::string("\0", 1), std::string("\0{}", 3), std::string("\0 garbage", 9)}) {
      folder.write(name, content + rest);
      const std::string text = load_error<CheckpointError>(folder);
      EXPECT_EQ(text.substr(text.find(": JSON")), ": JSON must not hold a NUL byte, got at_byte=" + end + where);
    }
    for (const char* rest : {"{}", "x", "\xff", ",", "]", "//"}) {
      folder.write(name, content + rest);
      EXPECT_NE(load_error<CheckpointError>(folder).find(": the file must be valid JSON in UTF-8"), std::string::npos);
    }
    folder.write(name, content + " \n\t");
    EXPECT_NO_THROW(load_text_encoder(folder.path()));
    folder.write(name, content);
  }
  const std::string weights = read_bytes(folder / "model.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, weights.data(), 8);
  folder.write("model.safetensors", length_prefix(length + 2) + weights.substr(8, length) + std::string("\0x", 2) +
                                        weights.substr(8 + length));
  EXPECT_EQ(load_error<CheckpointError>(folder), "load_safetensors: JSON must not hold a NUL byte, got at_byte=" +
                                                     std::to_string(length) + " (\"DIR/model.safetensors\")");
}

}  // namespace
}  // namespace multihead
