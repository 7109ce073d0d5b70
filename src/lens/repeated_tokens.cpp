// [CLS] r1 .. rn r1 .. rn [SEP], r drawn without replacement (partial Fisher & Yates shuffle).
#include <algorithm>

#include "core/require.hpp"
#include "core/splitmix64.hpp"
#include "lens/special_tokens.hpp"
#include "multihead/lens/corpus.hpp"

namespace multihead::lens {
namespace {

constexpr auto kFunction = "repeated_tokens";

/// Neither special, nor in brackets, nor a single byte.
bool is_ordinary(const Tokenizer& tokenizer, index_t id) {
  const std::optional<std::string> token = tokenizer.id_to_token(id);
  if (!token || token->size() < 2) return false;
  const bool in_brackets =
      (token->front() == '[' && token->back() == ']') || (token->front() == '<' && token->back() == '>');
  return !in_brackets && !tokenizer.decode({&id, 1}, {.skip_special_tokens = true}).empty();
}

std::vector<index_t> ordinary_tokens(const Tokenizer& tokenizer) {
  std::vector<index_t> found;
  for (index_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (is_ordinary(tokenizer, id)) found.push_back(id);
  }
  return found;
}

/// The middle half of the text's tokens by frequency, else every ordinary token of the vocabulary.
std::vector<index_t> candidates(const Tokenizer& tokenizer, const TokenFrequencies& frequencies, index_t fewest) {
  std::vector<index_t> found;
  for (index_t id = 0; id < static_cast<index_t>(frequencies.counts.size()); ++id) {
    if (frequencies.counts[static_cast<std::size_t>(id)] > 0 && is_ordinary(tokenizer, id)) found.push_back(id);
  }
  std::ranges::stable_sort(found, [&](index_t a, index_t b) {
    return frequencies.counts[static_cast<std::size_t>(a)] > frequencies.counts[static_cast<std::size_t>(b)];
  });
  const auto quarter = static_cast<std::ptrdiff_t>(found.size() / 4);
  std::vector<index_t> middle(found.begin() + quarter, found.end() - quarter);
  if (static_cast<index_t>(middle.size()) >= fewest) return middle;
  return ordinary_tokens(tokenizer);
}

void add_special(Segment& segment, const Tokenizer& tokenizer, const std::vector<index_t>& ids) {
  for (const index_t id : ids) {
    segment.ids.push_back(id);
    segment.tokens.push_back(tokenizer.id_to_token(id).value_or(""));
    segment.word_ids.emplace_back();
    segment.special.push_back(1);
  }
}

}  // namespace

index_t num_ordinary_tokens(const Tokenizer& tokenizer) {
  return static_cast<index_t>(ordinary_tokens(tokenizer).size());
}

std::vector<Segment> repeated_tokens(const Tokenizer& tokenizer, const TokenFrequencies& frequencies,
                                     const RepeatedOptions& options) {
  const index_t n = options.num_distinct;
  require(n >= 1 && options.repeats >= 1 && options.num_sequences >= 1, kFunction, "options must be at least 1",
          {{"num_sequences", options.num_sequences}, {"num_distinct", n}, {"repeats", options.repeats}});
  std::vector<index_t> pool = candidates(tokenizer, frequencies, 2 * n);
  require(static_cast<index_t>(pool.size()) >= n, kFunction, "the vocabulary must have num_distinct ordinary tokens",
          {{"num_distinct", n}, {"ordinary_tokens", pool.size()}});
  const SpecialTokens around = special_tokens(tokenizer, tokenizer.id_to_token(pool.front()).value_or("a"));
  std::uint64_t state = options.seed;
  std::vector<Segment> sequences;
  for (index_t s = 0; s < options.num_sequences; ++s) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(n); ++k) {
      std::swap(pool[k], pool[k + splitmix64(state) % (pool.size() - k)]);
      state += kSplitMix64Step;
    }
    Segment segment;
    add_special(segment, tokenizer, around.before);
    for (index_t k = 0; k < n * options.repeats; ++k) {
      const index_t id = pool[static_cast<std::size_t>(k % n)];
      segment.ids.push_back(id);
      segment.tokens.push_back(tokenizer.id_to_token(id).value_or(""));
      segment.word_ids.emplace_back(k);
      segment.special.push_back(0);
    }
    add_special(segment, tokenizer, around.after);
    sequences.push_back(std::move(segment));
  }
  return sequences;
}

}  // namespace multihead::lens
