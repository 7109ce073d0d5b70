#include <algorithm>

#include "core/mapped_file.hpp"
#include "io/json.hpp"
#include "text/pipeline.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace multihead {
namespace {

constexpr std::string_view kFunction = "Tokenizer::load";

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

nlohmann::json document_from_vocab(const std::filesystem::path& vocab_file, const TokenizerSettings& settings) {
  const nlohmann::json vocab = read_vocab(vocab_file);
  const auto id_of = [&](const std::string& token) -> nlohmann::json {
    const auto it = vocab.find(token);
    require_file(it != vocab.end(), vocab_file, kFunction, "the vocabulary must hold the special tokens",
                 {{"missing", quote(token)}});
    return *it;
  };
  const std::string &unk = settings.special.at("unk_token"), &cls = settings.special.at("cls_token"),
                    &sep = settings.special.at("sep_token");
  const auto strip = settings.strip_accents.value_or(std::nullopt);
  return {{"added_tokens", nlohmann::json::array()},  // the settings add them
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", settings.isolate_ideographs.value_or(true)},
            {"strip_accents", strip ? nlohmann::json(*strip) : nlohmann::json()},
            {"lowercase", settings.lowercase.value_or(true)}}},
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

void require_vocab_file(const ModelFolder& folder) {
  if (folder.holds("vocab.txt")) return;
  struct Foreign {
    const char *name, *kind;
  };
  constexpr Foreign kForeign[] = {{"merges.txt", "byte-level BPE"},
                                  {"sentencepiece.bpe.model", "Unigram (SentencePiece)"},
                                  {"spiece.model", "Unigram (SentencePiece)"},
                                  {"spm.model", "Unigram (SentencePiece)"},
                                  {"tokenizer.model", "Unigram or BPE (SentencePiece)"},
                                  {"bpe.codes", "BPE"}};
  for (const Foreign& foreign : kForeign) {
    if (!folder.holds(foreign.name)) continue;
    throw UnsupportedError(error_text(kFunction, "the tokenizer is of a kind that is not handled",
                                      {{"kind", quote(foreign.kind)}, {"found", quote(foreign.name)}},
                                      "handled: WordPiece") +
                           " (\"" + folder.path().string() + "\")");
  }
  require_file(false, folder.path(), kFunction, "the folder must hold tokenizer.json or vocab.txt",
               {{"found", list_of_files(folder.path())}});
}

}  // namespace multihead
