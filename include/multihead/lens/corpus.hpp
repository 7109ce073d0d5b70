// Input for statistics of heads: a text cut into segments of equal length, and sequences of repeated random tokens.
//
//   segment    [CLS] t1 .. tn [SEP]                  n consecutive tokens of the text
//   repeated   [CLS] r1 .. rn  r1 .. rn [SEP]        r: distinct random tokens, here 2 times
//
// The special tokens are those that the tokenizer adds to any text. There is no padding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "multihead/export.hpp"
#include "multihead/tokenizer.hpp"

namespace multihead::lens {

/// One input sequence of a model, T tokens.
struct Segment {
  std::vector<index_t> ids;                      ///< [T]
  std::vector<std::string> tokens;               ///< [T] as in the vocabulary
  std::vector<std::optional<index_t>> word_ids;  ///< [T] index of the word in the text; unset for special tokens
  std::vector<std::uint8_t> special;             ///< [T] 1 = added by the tokenizer

  index_t num_tokens() const { return static_cast<index_t>(ids.size()); }
};

/// How often each token occurs in a text. Special tokens that the tokenizer adds are not counted.
struct TokenFrequencies {
  std::vector<index_t> counts;  ///< [vocab_size]
  std::vector<index_t> ranks;   ///< [vocab_size] number of distinct tokens that are more frequent: 0 = most frequent
  index_t num_tokens = 0;       ///< all tokens of the text
  index_t num_distinct = 0;     ///< those with a count above 0
};
/// @param counts  [vocab_size]
MULTIHEAD_API TokenFrequencies rank_tokens(std::vector<index_t> counts);

struct Corpus {
  std::vector<Segment> segments;
  TokenFrequencies frequencies;  ///< of the whole text, not only of the segments
  index_t num_pieces = 0;        ///< number of segments in the whole text
};

struct CorpusOptions {
  index_t segment_tokens = 128;  ///< T, special tokens included
  index_t max_segments = 64;
};

/// Cuts a text into segments of segment_tokens tokens and takes max_segments of them, spread evenly over the text. The
/// rest of the text is a shorter segment if there are too few whole ones and it has 16 tokens, or if there is no other.
///
/// @param text  UTF-8, may hold NUL
/// @throws Error       if the text is not UTF-8
/// @throws ShapeError  if the text has no token, max_segments < 1, or segment_tokens leaves no room for text
///
/// Cost    that of Tokenizer::encode. Memory  16 bytes per token of the text, and the segments.
/// Source  segments of at most 128 tokens: Clark et al. 2019, section 3.
MULTIHEAD_API Corpus read_corpus(const Tokenizer& tokenizer, std::string_view text, const CorpusOptions& options = {});

/// A text as one segment, truncated to max_tokens.
/// @throws as read_corpus
MULTIHEAD_API Segment read_segment(const Tokenizer& tokenizer, std::string_view text, index_t max_tokens);

struct RepeatedOptions {
  index_t num_sequences = 10;
  index_t num_distinct = 63;  ///< n
  index_t repeats = 2;        ///< how often the n tokens occur; Olsson et al. 2022 use 25 tokens, 4 times
  std::uint64_t seed = 1;
};

/// Sequences of repeated random tokens, drawn without replacement from the tokens of the text without the most and the
/// least frequent quarter or, if that leaves fewer than 2 n tokens, from the whole vocabulary. Special tokens,
/// tokens in brackets such as "[unused7]" and single bytes are never drawn.
///
/// @throws ShapeError  if an option is below 1, or the vocabulary has fewer than n tokens that may be drawn
///
/// Source  Olsson et al. 2022, "Model analysis table": the most and the least common tokens are left out.
MULTIHEAD_API std::vector<Segment> repeated_tokens(const Tokenizer& tokenizer, const TokenFrequencies& frequencies,
                                                   const RepeatedOptions& options = {});

/// Tokens of the vocabulary that repeated_tokens may draw from.
MULTIHEAD_API index_t num_ordinary_tokens(const Tokenizer& tokenizer);

}  // namespace multihead::lens
