// Models: the pieces of a word that have ids.
#pragma once

#include <memory>

#include "text/aligned_text.hpp"
#include "text/json_node.hpp"
#include "text/vocabulary.hpp"

namespace multihead {

struct WordPart {
  index_t id = 0;
  AlignedSlice chars;  // of the word
};

class Model {
 public:
  virtual ~Model() = default;

  /// Appends the parts of `word`, which is not empty, to `parts`.
  virtual void split(AlignedSlice word, std::vector<WordPart>& parts) const = 0;

  virtual const Vocabulary& vocabulary() const = 0;
};

/// @throws UnsupportedError  naming the kind of tokenizer, if it is not one that make_model makes
void require_handled_model(const JsonNode& document);

/// From the field "model" of the whole document.
std::unique_ptr<const Model> make_model(const JsonNode& document);

/// WordPiece: at each place of the word the longest token of the vocabulary; the whole word becomes the unknown token
/// if there is none, or if it is longer than max_input_chars_per_word.
/// Source  Schuster & Nakajima 2012; Devlin et al. 2018.
std::unique_ptr<const Model> make_wordpiece(const JsonNode& node);

}  // namespace multihead
