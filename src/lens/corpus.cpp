// A text is tokenized a few hundred kilobytes at a time, cut at line breaks, so that memory stays at ids and word ids.
#include "multihead/lens/corpus.hpp"

#include <algorithm>
#include <numeric>

#include "core/require.hpp"
#include "lens/special_tokens.hpp"

namespace multihead::lens {
namespace {

constexpr auto kFunction = "read_corpus";
constexpr std::size_t kChunkBytes = 256 * 1024;
constexpr index_t kFewestLeftOver = 16;  // a shorter rest says too little about distances

/// Where the chunk that begins at `begin` ends: after a line break, else after a space, else between two characters.
std::size_t chunk_end(std::string_view text, std::size_t begin) {
  if (text.size() - begin <= kChunkBytes) return text.size();
  const std::string_view chunk = text.substr(begin, kChunkBytes);
  for (const char mark : {'\n', ' '}) {
    const std::size_t at = chunk.rfind(mark);
    if (at != std::string_view::npos) return begin + at + 1;
  }
  std::size_t end = begin + kChunkBytes;
  while (end > begin + 1 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  return end;
}

struct TextTokens {
  std::vector<index_t> ids, words;
};

TextTokens tokens_of(const Tokenizer& tokenizer, std::string_view text) {
  TextTokens tokens;
  index_t words_before = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = chunk_end(text, begin);
    const Encoding encoding = tokenizer.encode(text.substr(begin, end - begin), {.add_special_tokens = false});
    index_t num_words = 0;
    for (std::size_t t = 0; t < encoding.ids.size(); ++t) {
      const index_t word = encoding.word_ids[t].value_or(num_words);
      num_words = std::max(num_words, word + 1);
      tokens.ids.push_back(encoding.ids[t]);
      tokens.words.push_back(words_before + word);
    }
    words_before += num_words;
    begin = end;
  }
  return tokens;
}

void add_token(Segment& segment, const Tokenizer& tokenizer, index_t id, std::optional<index_t> word, bool special) {
  segment.ids.push_back(id);
  segment.tokens.push_back(tokenizer.id_to_token(id).value_or(""));
  segment.word_ids.push_back(word);
  segment.special.push_back(special ? 1 : 0);
}

Segment segment_of(const Tokenizer& tokenizer, const SpecialTokens& around, const TextTokens& tokens, index_t begin,
                   index_t end) {
  Segment segment;
  for (const index_t id : around.before) add_token(segment, tokenizer, id, {}, true);
  index_t word = -1, before = -1;
  for (index_t t = begin; t < end; ++t) {
    const auto at = static_cast<std::size_t>(t);
    if (word < 0 || tokens.words[at] != before) ++word;
    before = tokens.words[at];
    add_token(segment, tokenizer, tokens.ids[at], word, false);
  }
  for (const index_t id : around.after) add_token(segment, tokenizer, id, {}, true);
  return segment;
}

index_t num_rows(const Tokenizer& tokenizer, const std::vector<index_t>& ids) {
  return ids.empty() ? tokenizer.vocab_size() : std::max(tokenizer.vocab_size(), *std::ranges::max_element(ids) + 1);
}

}  // namespace

TokenFrequencies rank_tokens(std::vector<index_t> counts) {
  TokenFrequencies result{.counts = std::move(counts), .ranks = {}};
  std::vector<std::size_t> order(result.counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return result.counts[a] > result.counts[b]; });
  result.ranks.resize(order.size());
  for (std::size_t n = 0; n < order.size(); ++n) {
    const bool tied = n > 0 && result.counts[order[n]] == result.counts[order[n - 1]];
    result.ranks[order[n]] = tied ? result.ranks[order[n - 1]] : static_cast<index_t>(n);
    result.num_tokens += result.counts[order[n]];
    result.num_distinct += result.counts[order[n]] > 0 ? 1 : 0;
  }
  return result;
}

Corpus read_corpus(const Tokenizer& tokenizer, std::string_view text, const CorpusOptions& options) {
  require(options.max_segments >= 1, kFunction, "max_segments must be at least 1",
          {{"max_segments", options.max_segments}});
  const TextTokens tokens = tokens_of(tokenizer, text);
  const auto num_tokens = static_cast<index_t>(tokens.ids.size());
  require(num_tokens > 0, kFunction, "the text must hold a token of its own",
          {{"tokens", num_tokens}, {"bytes", text.size()}});
  const SpecialTokens around = special_tokens(tokenizer, tokenizer.id_to_token(tokens.ids[0]).value_or("a"));
  const index_t room = options.segment_tokens - around.count();
  require(room >= 1, kFunction, "segment_tokens must have room for a token of the text",
          {{"segment_tokens", options.segment_tokens}, {"special_tokens", around.count()}});

  std::vector<index_t> counts(static_cast<std::size_t>(num_rows(tokenizer, tokens.ids)));
  for (const index_t id : tokens.ids) ++counts[static_cast<std::size_t>(id)];
  const index_t whole = num_tokens / room, rest = num_tokens % room;
  const bool keeps_rest = whole == 0 || (rest >= kFewestLeftOver && whole < options.max_segments);
  Corpus corpus{
      .segments = {}, .frequencies = rank_tokens(std::move(counts)), .num_pieces = whole + (keeps_rest ? 1 : 0)};
  const index_t count = std::min(corpus.num_pieces, options.max_segments);
  for (index_t n = 0; n < count; ++n) {
    const index_t begin = n * corpus.num_pieces / count * room;
    corpus.segments.push_back(segment_of(tokenizer, around, tokens, begin, std::min(begin + room, num_tokens)));
  }
  return corpus;
}

Segment read_segment(const Tokenizer& tokenizer, std::string_view text, index_t max_tokens) {
  return std::move(read_corpus(tokenizer, text, {.segment_tokens = max_tokens, .max_segments = 1}).segments.front());
}

}  // namespace multihead::lens
