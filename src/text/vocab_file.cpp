#include <algorithm>
#include <set>

#include "core/mapped_file.hpp"
#include "io/json.hpp"
#include "text/pipeline.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace multihead {
namespace {

constexpr std::string_view kFunction = "Tokenizer::load";

// A special token of tokenizer_config.json: a string, or an object with its content.
std::string special_token(const JsonNode& config, const std::string& name, const std::string& otherwise) {
  const auto node = config.find(name);
  if (!node) return otherwise;
  return node->is_text() ? node->text() : node->at("content").text();
}

bool flag(const JsonNode& config, const std::string& name, bool otherwise) {
  const auto node = config.find(name);
  return node ? node->boolean() : otherwise;
}

std::string_view without_trailing_space(std::string_view line) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < line.size();) {
    const Utf8Char c = read_utf8(line, static_cast<index_t>(i));
    i += static_cast<std::size_t>(c.num_bytes);
    if (!is_whitespace(c.code)) kept = i;
  }
  return line.substr(0, kept);
}

// One token a line; its id is the number of the line. Of equal lines the last counts.
nlohmann::json read_vocab(const std::filesystem::path& path) {
  const MappedFile file(path, kFunction);
  const std::string_view content(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  const index_t invalid = first_invalid_utf8(content);
  require_file(invalid == static_cast<index_t>(content.size()), path, kFunction, "the file must be UTF-8",
               {{"error_at_byte", invalid}});
  nlohmann::json vocab = nlohmann::json::object();
  index_t id = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    vocab[std::string(without_trailing_space(content.substr(begin, end - begin)))] = id++;
    begin = end + 1;
  }
  return vocab;
}

}  // namespace

nlohmann::json document_from_vocab(const std::filesystem::path& vocab_file) {
  const auto config_file = vocab_file.parent_path() / "tokenizer_config.json";
  const nlohmann::json config_json =
      std::filesystem::exists(config_file) ? read_json(config_file, kFunction) : nlohmann::json::object();
  const JsonNode config(config_json, "tokenizer_config", config_file);
  const nlohmann::json vocab = read_vocab(vocab_file);

  const std::string unk = special_token(config, "unk_token", "[UNK]");
  const std::string cls = special_token(config, "cls_token", "[CLS]");
  const std::string sep = special_token(config, "sep_token", "[SEP]");
  const std::string pad = special_token(config, "pad_token", "[PAD]");
  const std::string mask = special_token(config, "mask_token", "[MASK]");
  const auto strip_accents = config.find("strip_accents");

  const auto id_of = [&](const std::string& token) -> nlohmann::json {
    const auto it = vocab.find(token);
    require_file(it != vocab.end(), vocab_file, kFunction, "the vocabulary must hold the special tokens",
                 {{"missing", quote(token)}});
    return *it;
  };
  nlohmann::json added = nlohmann::json::array();
  for (const std::string& token : std::set<std::string>{pad, unk, cls, sep, mask}) {
    if (!vocab.contains(token)) continue;
    added.push_back({{"id", vocab[token]},
                     {"content", token},
                     {"special", true},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false}});
  }
  return {{"added_tokens", added},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", flag(config, "tokenize_chinese_chars", true)},
            {"strip_accents", strip_accents ? nlohmann::json(strip_accents->boolean()) : nlohmann::json()},
            {"lowercase", flag(config, "do_lower_case", true)}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor", {{"type", "BertProcessing"}, {"cls", {cls, id_of(cls)}}, {"sep", {sep, id_of(sep)}}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", unk},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab", vocab}}}};
}

}  // namespace multihead
