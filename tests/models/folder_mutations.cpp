// Every value of every JSON file of a model folder, replaced by values of other kinds: the folder is read or refused
// with an error of the library.
#include <gtest/gtest.h>

#include "models/checkpoint_edits.hpp"
#include "multihead/text_encoder.hpp"

namespace multihead {
namespace {

using nlohmann::json;

json tiny_tokenizer() {
  return json::parse(read_bytes(std::filesystem::path(MULTIHEAD_SOURCE_DIR) / "tests/golden/tokenizer/tiny.json"));
}

// Every file, in a form that is read.
std::map<std::string, json> whole_folder() {
  const json token = {{"content", "[ENT]"}, {"lstrip", false}, {"normalized", false}, {"special", true}};
  json config = json::parse(read_bytes(golden_folder("bert") / "config.json"));
  config["pruned_heads"] = json::object();
  json tokenizer = tiny_tokenizer();
  const auto num_words = tokenizer["model"]["vocab"].size();
  json few = json::object();
  for (const auto& [word, id] : tokenizer["model"]["vocab"].items()) {
    if (id < 12) few[word] = id;
  }
  tokenizer["model"]["vocab"] = few;
  tokenizer["truncation"] = {{"max_length", 9}, {"strategy", "LongestFirst"}, {"stride", 0}, {"direction", "Right"}};
  tokenizer["padding"] = {
      {"strategy", {{"Fixed", 8}}}, {"direction", "Right"}, {"pad_id", 0}, {"pad_type_id", 0}, {"pad_token", "[PAD]"}};
  const std::string next = std::to_string(few.size());
  EXPECT_GT(num_words, few.size());
  return {
      {"config.json", config},
      {"tokenizer.json", tokenizer},
      {"tokenizer_config.json",
       {{"tokenizer_class", "BertTokenizer"},
        {"do_lower_case", true},
        {"strip_accents", nullptr},
        {"model_max_length", 12},
        {"truncation_side", "right"},
        {"padding_side", "right"},
        {"never_split", {"[MASK]"}},
        {"mask_token", {{"__type", "AddedToken"}, {"content", "[MASK]"}, {"lstrip", false}}},
        {"added_tokens_decoder", {{next, token}}},
        {"additional_special_tokens", {"[ENT]"}},
        {"model_input_names", {"input_ids", "token_type_ids"}}}},
      {"special_tokens_map.json", {{"cls_token", "[CLS]"}, {"extra_special_tokens", {{"ent", "[ENT]"}}}}},
      {"added_tokens.json", {{"[ENT]", few.size()}}},
      {"modules.json",
       {{{"idx", 0}, {"type", "sentence_transformers.models.Transformer"}, {"path", ""}},
        {{"idx", 1}, {"type", "sentence_transformers.models.Pooling"}, {"path", "P"}},
        {{"idx", 2}, {"type", "sentence_transformers.models.Normalize"}, {"path", "N"}}}},
      {"P/config.json", {{"pooling_mode_mean_tokens", true}, {"word_embedding_dimension", 32}}},
      {"N/config.json", {{"module_input_name", "sentence_embedding"}}},
      {"sentence_bert_config.json", {{"max_seq_length", 9}, {"do_lower_case", false}, {"model_args", json::object()}}},
      {"config_sentence_transformers.json", {{"prompts", {{"query", ""}}}, {"default_prompt_name", "query"}}},
  };
}

const json kValues[] = {
    nullptr,
    true,
    -1,
    0,
    2147483648,
    18446744073709551615U,
    -9223372036854775807,
    1e308,
    0.5,
    "",
    "no such name",
    std::string(1000, 'x') + "\x01\xC3\xA9",
    json::array(),
    json::object(),
    json::array({json::array({json::object({{"a", json::array({1})}})})}),
    json::object({{"", nullptr}}),
};

class FolderMutations : public testing::Test {
 protected:
  FolderMutations() {
    for (const char* inner : {"P", "N"}) std::filesystem::create_directory(folder / inner);
    copy_checkpoint("bert", folder, {});
    for (const auto& [name, content] : files) folder.write(name, content.dump());
  }

  // Reads or refuses; anything else ends the test.
  void load() {
    try {
      const TextEncoder model = load_text_encoder(folder.path());
      model.encode("hello [MASK] [ENT] world");
      ++num_read;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("json.exception"), std::string::npos) << error.what();
      ++num_refused;
    } catch (const std::exception& error) {
      FAIL() << "not an error of the library: " << error.what();
    }
  }

  const std::map<std::string, json> files = whole_folder();
  const TemporaryFolder folder;
  int num_read = 0, num_refused = 0;
};

TEST_F(FolderMutations, EveryValueOfEveryKind) {
  ASSERT_NO_THROW(load_text_encoder(folder.path()));
  constexpr std::size_t kStep = 5;
  std::size_t num_tried = 0;
  for (const auto& [name, content] : files) {
    // Pointers to every value, inner ones included; "" is the document.
    std::vector<std::string> pointers = {""};
    const json flat = content.flatten();
    for (const auto& [pointer, value] : flat.items()) {
      for (std::size_t at = pointer.find('/', 1);; at = pointer.find('/', at + 1)) {
        pointers.push_back(pointer.substr(0, at));
        if (at == pointer.npos) break;
      }
    }
    std::ranges::sort(pointers);
    pointers.erase(std::ranges::unique(pointers).begin(), pointers.end());
    for (const std::string& pointer : pointers) {
      // Each place gets some of the values, and each value comes to places of each kind.
      for (std::size_t v = num_tried++ % kStep; v < std::size(kValues); v += kStep) {
        const json& value = kValues[v];
        json changed = content;
        changed[json::json_pointer(pointer)] = value;
        SCOPED_TRACE(name + pointer + " = " + value.dump().substr(0, 40));
        folder.write(name, changed.dump());
        ASSERT_NO_FATAL_FAILURE(load());
      }
    }
    folder.write(name, content.dump());
  }
  EXPECT_GT(num_read, 100);
  EXPECT_GT(num_refused, 400);
}

TEST_F(FolderMutations, EveryFileCutShortAndNestedDeep) {
  for (const auto& [name, content] : files) {
    const std::string text = content.dump();
    for (std::size_t length = 0; length < text.size(); length += 1 + text.size() / 15) {
      SCOPED_TRACE(name + " cut to " + std::to_string(length));
      folder.write(name, text.substr(0, length));
      ASSERT_NO_FATAL_FAILURE(load());
    }
    for (const std::string open : {"[", "{\"a\":"}) {
      std::string deep;
      for (int i = 0; i < 100000; ++i) deep += open;
      folder.write(name, deep);
      ASSERT_NO_FATAL_FAILURE(load());
    }
    folder.write(name, text);
  }
  EXPECT_EQ(num_read, 0);
}

}  // namespace
}  // namespace multihead
