#include "text/model.hpp"

namespace multihead {

std::unique_ptr<const Model> make_model(const JsonNode& node) {
  // Files of before 2021 leave the type out. This field is WordPiece's alone.
  const bool untyped_wordpiece = !node.find("type") && node.find("max_input_chars_per_word");
  const std::string type = untyped_wordpiece ? "WordPiece" : node.at("type").text();
  if (type == "WordPiece") return make_wordpiece(node);
  node.unsupported(type, "WordPiece");
}

}  // namespace multihead
