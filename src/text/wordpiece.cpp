#include "text/model.hpp"
#include "text/trie.hpp"

namespace multihead {
namespace {

Vocabulary read_vocabulary(const JsonNode& node) {
  Vocabulary vocabulary;
  for (auto& [token, id] : node.members()) {
    if (!vocabulary.insert(token, id.count())) {
      id.fail("must be an id that no other token has",
              {{"id", id.count()}, {"other", quote(*vocabulary.token_of(id.count()))}});
    }
  }
  return vocabulary;
}

class WordPiece final : public Model {
 public:
  explicit WordPiece(const JsonNode& node)
      : vocabulary_(read_vocabulary(node.at("vocab"))),
        max_input_chars_per_word_(node.at("max_input_chars_per_word").count()) {
    const JsonNode unknown = node.at("unk_token");
    const auto id = vocabulary_.id_of(unknown.text());
    if (!id) unknown.fail("must be in the vocabulary", {{"unk_token", quote(unknown.text())}});
    unknown_id_ = *id;

    const std::string prefix = node.at("continuing_subword_prefix").text();
    for (const auto& [token_id, token] : vocabulary_) {
      beginnings_.insert(aligned(token, "Tokenizer::load"), token_id);
      if (!token.starts_with(prefix)) continue;
      continuations_.insert(aligned(std::string_view(token).substr(prefix.size()), "Tokenizer::load"), token_id);
    }
  }

  void split(AlignedSlice word, std::vector<WordPart>& parts) const override {
    const std::size_t num_parts_before = parts.size();
    bool is_known = static_cast<index_t>(word.size()) <= max_input_chars_per_word_;
    for (AlignedSlice rest = word; is_known && !rest.empty();) {
      const Trie& trie = rest.size() == word.size() ? beginnings_ : continuations_;
      const Trie::Match match = trie.longest_prefix(rest);
      is_known = match.num_chars > 0;
      parts.push_back({match.value, rest.first(match.num_chars)});
      rest = rest.subspan(match.num_chars);
    }
    if (is_known) return;
    parts.resize(num_parts_before);
    parts.push_back({unknown_id_, word});
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
  index_t max_input_chars_per_word_;
  index_t unknown_id_ = 0;
  Trie beginnings_;     // tokens that may begin a word
  Trie continuations_;  // tokens that may go on with one, without their prefix
};

}  // namespace

std::unique_ptr<const Model> make_wordpiece(const JsonNode& node) { return std::make_unique<WordPiece>(node); }

}  // namespace multihead
