#include "text/model.hpp"

namespace multihead {
namespace {

// The kind of a model as people know it: what "BPE" works on stands in other fields.
std::string kind_of(const std::string& type, const JsonNode& document) {
  if (type == "Unigram") return "Unigram (SentencePiece)";
  if (type != "BPE") return type;
  const auto names_bytes = [&](const char* field) {
    const auto step = document.find(field);
    return step && step->dump().find("\"ByteLevel\"") != std::string::npos;
  };
  if (names_bytes("pre_tokenizer") || names_bytes("decoder")) return "byte-level BPE";
  const auto fallback = document.at("model").find("byte_fallback");
  return fallback && fallback->dump() == "true" ? "BPE with byte fallback (SentencePiece)" : type;
}

}  // namespace

void require_handled_model(const JsonNode& document) {
  const JsonNode node = document.at("model");
  // Files of before 2021 leave the type out. This field is WordPiece's alone.
  const bool untyped_wordpiece = !node.find("type") && node.find("max_input_chars_per_word");
  const std::string type = untyped_wordpiece ? "WordPiece" : node.at("type").text();
  if (type != "WordPiece") node.unsupported(kind_of(type, document), "WordPiece");
}

std::unique_ptr<const Model> make_model(const JsonNode& document) {
  require_handled_model(document);
  return make_wordpiece(document.at("model"));
}

}  // namespace multihead
