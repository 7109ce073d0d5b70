// Tokens that are found in the text as they stand, before any model sees it: "[MASK]", or what a user added.
#pragma once

#include <optional>

#include "text/normalizer.hpp"
#include "text/trie.hpp"
#include "text/vocabulary.hpp"

namespace multihead {

struct AddedToken {
  index_t id = 0;
  std::string content = {};
  std::string normalized_content = {};  // what is looked for if `normalized`, else `content`
  bool special = false;                 // left out by decode
  bool single_word = false;             // only where no word character touches it
  bool takes_left = false;              // takes the whitespace before it, "lstrip"
  bool takes_right = false;             // takes the whitespace after it, "rstrip"
  bool normalized = false;              // looked for in the normalized text, else in the original
};

/// A stretch of a text: one added token, or what lies between two.
struct Stretch {
  AlignedSlice chars;
  const AddedToken* token = nullptr;  // null between tokens
};

class AddedTokens {
 public:
  AddedTokens() = default;

  /// A token that the model lacks gets the next id after it. An equal one gives its flags to that which is there.
  /// @return its id
  index_t add(AddedToken token, const Vocabulary& model_vocabulary);

  /// From the value of "added_tokens". Ids that contradict the model's vocabulary are refused.
  void add_all(const JsonNode& node, const Vocabulary& model_vocabulary);

  /// After the last was added: makes them ready to be found.
  void finish(const Normalizer* normalizer);

  /// Stretches that cover `text` in order. Of tokens that begin at one place the longest counts.
  /// @param normalized  look for the tokens that are normalized, or for the others
  std::vector<Stretch> find(AlignedSlice text, bool normalized) const;

  const AddedToken* by_id(index_t id) const;  // null if there is none
  bool contains(const std::string& content) const { return vocabulary_.id_of(content).has_value(); }
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  std::vector<AddedToken> tokens_;
  Vocabulary vocabulary_;                          // contents and ids of tokens_
  std::unordered_map<index_t, index_t> index_of_;  // id -> index in tokens_
  Trie original_;                                  // values are indices into tokens_
  Trie normalized_;
};

}  // namespace multihead
