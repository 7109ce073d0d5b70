#include "text/decoder.hpp"

#include <array>

namespace multihead {
namespace {

class JoinBySpaces final : public Decoder {
 public:
  std::string decode(const std::vector<std::string>& tokens) const override {
    std::string text;
    for (const std::string& token : tokens) text += (&token == tokens.data() ? "" : " ") + token;
    return text;
  }
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Joins continuations to what they continue; "cleanup" takes the space before English punctuation away.
class WordPieceDecoder final : public Decoder {
 public:
  explicit WordPieceDecoder(const JsonNode& node)
      : prefix_(node.at("prefix").text()), cleanup_(node.at("cleanup").boolean()) {}

  std::string decode(const std::vector<std::string>& tokens) const override {
    std::string text;
    bool first = true;
    for (std::string token : tokens) {
      if (!first) token = token.starts_with(prefix_) ? token.substr(prefix_.size()) : " " + token;
      if (cleanup_) clean(token);
      text += token;
      first = false;
    }
    return text;
  }

 private:
  static void clean(std::string& token) {
    constexpr std::array<std::array<std::string_view, 2>, 11> kRules = {{{" .", "."},
                                                                         {" ?", "?"},
                                                                         {" !", "!"},
                                                                         {" ,", ","},
                                                                         {" ' ", "'"},
                                                                         {" n't", "n't"},
                                                                         {" 'm", "'m"},
                                                                         {" do not", " don't"},
                                                                         {" 's", "'s"},
                                                                         {" 've", "'ve"},
                                                                         {" 're", "'re"}}};
    for (const auto& [from, to] : kRules) replace_all(token, from, to);
  }

  std::string prefix_;
  bool cleanup_;
};

}  // namespace

std::unique_ptr<const Decoder> make_decoder(const std::optional<JsonNode>& node) {
  if (!node) return std::make_unique<JoinBySpaces>();
  const std::string type = node->at("type").text();
  if (type == "WordPiece") return std::make_unique<WordPieceDecoder>(*node);
  node->unsupported(type, "WordPiece");
}

}  // namespace multihead
