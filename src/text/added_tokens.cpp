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

index_t AddedTokens::add(AddedToken token, const Vocabulary& model_vocabulary) {
  if (const auto there = vocabulary_.id_of(token.content)) {
    token.id = *there;
    tokens_[index_of_.at(*there)] = std::move(token);
    return *there;
  }
  const index_t next_id = std::max(model_vocabulary.num_tokens(), vocabulary_.largest_id() + 1);
  token.id = model_vocabulary.id_of(token.content).value_or(next_id);
  require<CheckpointError>(vocabulary_.insert(token.content, token.id), "Tokenizer::load",
                           "an added token must have an id that no other has",
                           {{"content", quote(token.content)}, {"id", token.id}});
  index_of_.emplace(token.id, static_cast<index_t>(tokens_.size()));
  tokens_.push_back(std::move(token));
  return tokens_.back().id;
}

void AddedTokens::add_all(const JsonNode& node, const Vocabulary& model_vocabulary) {
  for (const JsonNode& element : node.elements()) {
    AddedToken token = read_token(element);
    if (token.content.empty()) continue;
    const index_t stated = token.id, id = add(token, model_vocabulary);
    // A file that says otherwise would be read differently elsewhere.
    if (stated != id) {
      element.fail("must have the id that the vocabulary gives it",
                   {{"content", quote(token.content)}, {"id", stated}, {"expected", id}});
    }
  }
}

void AddedTokens::finish(const Normalizer* normalizer) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    AddedToken& token = tokens_[i];
    token.normalized_content = token.normalized ? normalized_form(token.content, normalizer) : token.content;
    Trie& trie = token.normalized ? normalized_ : original_;
    const AlignedText text = aligned(token.normalized_content, "Tokenizer::load");
    // Of two that become the same text the first counts.
    if (trie.longest_prefix(text).num_chars < static_cast<index_t>(text.size())) {
      trie.insert(text, static_cast<index_t>(i));
    }
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
