#include "text/added_tokens.hpp"

#include <algorithm>

#include "text/unicode.hpp"

namespace multihead {
namespace {

AddedToken read_token(const JsonNode& node) {
  AddedToken token;
  token.id = node.at("id").count();
  token.content = node.at("content").text();
  token.special = node.at("special").boolean();
  token.single_word = node.at("single_word").boolean();
  token.takes_left = node.at("lstrip").boolean();
  token.takes_right = node.at("rstrip").boolean();
  token.normalized = node.at("normalized").boolean();
  return token;
}

std::string normalized_form(const std::string& content, const Normalizer* normalizer) {
  AlignedText text = aligned(content, "Tokenizer::load");
  if (normalizer) normalizer->apply(text);
  return to_utf8(text);
}

bool touches_word(AlignedSlice text, index_t begin, index_t end) {
  const bool before = begin > 0 && is_word(text[begin - 1].code);
  const bool after = end < static_cast<index_t>(text.size()) && is_word(text[end].code);
  return before || after;
}

}  // namespace

AddedTokens::AddedTokens(const JsonNode& node, const Vocabulary& model_vocabulary, const Normalizer* normalizer) {
  index_t next_id = model_vocabulary.num_tokens();
  for (const JsonNode& element : node.elements()) {
    AddedToken token = read_token(element);
    if (token.content.empty()) continue;
    // A token that the model lacks gets the next id. A file that says otherwise would be read differently elsewhere.
    const auto model_id = model_vocabulary.id_of(token.content);
    const index_t expected_id = model_id ? *model_id : next_id++;
    if (token.id != expected_id) {
      element.fail("must have the id that the vocabulary gives it",
                   {{"content", quote(token.content)}, {"id", token.id}, {"expected", expected_id}});
    }
    if (!vocabulary_.insert(token.content, token.id)) {
      element.fail("must not repeat another added token", {{"content", quote(token.content)}, {"id", token.id}});
    }
    const auto index = static_cast<index_t>(tokens_.size());
    token.normalized_content = token.normalized ? normalized_form(token.content, normalizer) : token.content;
    (token.normalized ? normalized_ : original_).insert(aligned(token.normalized_content, "Tokenizer::load"), index);
    index_of_.emplace(token.id, index);
    tokens_.push_back(std::move(token));
  }
}

std::vector<Stretch> AddedTokens::find(AlignedSlice text, bool normalized) const {
  const Trie& trie = normalized ? normalized_ : original_;
  const auto num_chars = static_cast<index_t>(text.size());
  const auto slice = [&](index_t begin, index_t end) { return text.subspan(begin, end - begin); };
  const auto is_space = [&](index_t i) { return is_whitespace(text[i].code); };
  std::vector<Stretch> stretches;
  index_t covered = 0;  // text[0, covered) is in stretches
  for (index_t i = 0; i < num_chars;) {
    const Trie::Match match = trie.longest_prefix(text.subspan(i));
    if (match.num_chars == 0) {
      ++i;
      continue;
    }
    const AddedToken& token = tokens_[match.value];
    index_t begin = i;
    index_t end = i + match.num_chars;
    i = end;
    if (token.single_word && touches_word(text, begin, end)) continue;
    if (token.takes_left)
      begin = std::max(begin, covered);  // `covered` is past i where a token took spaces to its right
    while (token.takes_left && begin > covered && is_space(begin - 1)) --begin;
    while (token.takes_right && end < num_chars && is_space(end)) ++end;
    if (covered < begin) stretches.push_back({slice(covered, begin), nullptr});
    stretches.push_back({slice(begin, end), &token});
    covered = end;
  }
  if (covered < num_chars) stretches.push_back({slice(covered, num_chars), nullptr});
  return stretches;
}

const AddedToken* AddedTokens::by_id(index_t id) const {
  const auto it = index_of_.find(id);
  return it == index_of_.end() ? nullptr : &tokens_[it->second];
}

}  // namespace multihead
