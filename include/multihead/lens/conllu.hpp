// Sentences with their dependency trees, from a file in CoNLL-U (universaldependencies.org/format.html).
//
// Of the ten columns of a word ID, FORM, HEAD, DEPREL and the SpaceAfter of MISC are read. The text is put together
// from the forms, a space after each unless SpaceAfter=No. A range ("3-4") is one piece of text for several words; an
// empty node ("8.1") is passed over.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "multihead/export.hpp"
#include "multihead/lens/corpus.hpp"

namespace multihead::lens {

struct GoldWord {
  std::string form;
  std::optional<index_t> head;   ///< index of the word that governs it; unset = the root
  std::string relation;          ///< the part before ":", as "nmod" of "nmod:poss"
  std::optional<TextSpan> span;  ///< its bytes of the text; unset where a range is not written as its words are
};

struct GoldSentence {
  std::string text;
  std::vector<GoldWord> words;
  index_t line = 0;  ///< of its first word, from 1
};

/// @param name  of the file, for errors
/// @throws CheckpointError  if it is not UTF-8, holds no sentence, or a line breaks a rule; names the line
MULTIHEAD_API std::vector<GoldSentence> read_conllu(std::string_view content, std::string_view name);

/// A sentence as a model reads it, cut to max_tokens; word_ids are those of the sentence. A token belongs to the word
/// that its first byte lies in, so a word may have none.
MULTIHEAD_API Segment gold_segment(const Tokenizer& tokenizer, const GoldSentence& sentence, index_t max_tokens);

}  // namespace multihead::lens
