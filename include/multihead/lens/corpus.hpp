// What heads are judged on: a text cut into segments of equal length, and sequences of random tokens that repeat.
//
//   segment    [CLS] t1 .. tn [SEP]                  n tokens that follow each other in the text
//   repeated   [CLS] r1 .. rn  r1 .. rn [SEP]        r: distinct random tokens
//
// The special tokens are those that the tokenizer puts around any text. Nothing is ever padded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "multihead/export.hpp"
#include "multihead/tokenizer.hpp"

namespace multihead::lens {

/// One sequence as a model reads it, T tokens.
struct Segment {
  std::vector<index_t> ids;                      ///< [T]
  std::vector<std::string> tokens;               ///< [T] as in the vocabulary
  std::vector<std::optional<index_t>> word_ids;  ///< [T] the word of its text; unset for special tokens
  std::vector<std::uint8_t> special;             ///< [T] 1 = put there by the tokenizer

  index_t num_tokens() const { return static_cast<index_t>(ids.size()); }
};

/// How often each token stands in a text. Special tokens that the tokenizer adds are not counted.
struct TokenFrequencies {
  std::vector<index_t> counts;  ///< [vocab_size]
  std::vector<index_t> ranks;   ///< [vocab_size] how many distinct tokens are more frequent: 0 = the most frequent one
  index_t num_tokens = 0;       ///< all tokens of the text
  index_t num_distinct = 0;     ///< those with a count above 0
};
/// @param counts  [vocab_size]
MULTIHEAD_API TokenFrequencies rank_tokens(std::vector<index_t> counts);

struct Corpus {
  std::vector<Segment> segments;
  TokenFrequencies frequencies;  ///< of the whole text, not only of the segments
  index_t num_pieces = 0;        ///< segments that the text has room for
};

struct CorpusOptions {
  index_t segment_tokens = 128;  ///< T, special tokens included
  index_t max_segments = 64;
};

/// Cuts a text into pieces of segment_tokens and takes max_segments of them, spread evenly. What is left over at the
/// end is a shorter segment where the text has too few whole ones and 16 tokens are left, or nothing else.
///
/// @param text  UTF-8, may hold NUL
/// @throws Error       if the text is not UTF-8
/// @throws ShapeError  if the text has no token, max_segments < 1, or segment_tokens has no room beside special tokens
///
/// Cost    that of Tokenizer::encode. Memory  16 bytes a token of the text, and the segments.
/// Source  segments of at most 128 tokens: Clark et al. 2019, section 3.
MULTIHEAD_API Corpus read_corpus(const Tokenizer& tokenizer, std::string_view text, const CorpusOptions& options = {});

/// A text as one segment, cut to max_tokens.
/// @throws as read_corpus
MULTIHEAD_API Segment read_segment(const Tokenizer& tokenizer, std::string_view text, index_t max_tokens);

struct RepeatedOptions {
  index_t num_sequences = 10;
  index_t num_distinct = 63;  ///< n
  index_t repeats = 2;        ///< how often the n tokens stand there; Olsson et al. 2022 take 25 tokens, 4 times
  std::uint64_t seed = 1;
};

/// Sequences of repeated random tokens. They are drawn without replacement from the middle half of the text's tokens by
/// frequency or, where that has fewer than 2 n tokens, from the whole vocabulary; never special tokens, those in
/// brackets as "[unused7]", or single bytes.
///
/// @throws ShapeError  if an option is below 1, or the vocabulary has fewer than n tokens to draw from
///
/// Source  Olsson et al. 2022, "Model analysis table": the most and the least common tokens are left out.
MULTIHEAD_API std::vector<Segment> repeated_tokens(const Tokenizer& tokenizer, const TokenFrequencies& frequencies,
                                                   const RepeatedOptions& options = {});

}  // namespace multihead::lens
