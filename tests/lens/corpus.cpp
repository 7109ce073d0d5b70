// Texts cut into segments, repeated random tokens, and the pass over them.
#include "multihead/lens/corpus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "lens/small_model.hpp"
#include "multihead/lens/observe.hpp"
#include "support/error_text.hpp"

namespace multihead::lens {
namespace {

constexpr index_t kCls = 2, kSep = 3, kFirst = 5;

std::vector<index_t> inner(const Segment& segment) { return {segment.ids.begin() + 1, segment.ids.end() - 1}; }

TEST(Corpus, PutsTheTextBackTogether) {
  const Tokenizer tokenizer = small_tokenizer(numbered_words(50));
  const std::string text = numbered_words(50);
  const Corpus corpus = read_corpus(tokenizer, text, {.segment_tokens = 12, .max_segments = 99});
  ASSERT_EQ(corpus.segments.size(), 5u);
  EXPECT_EQ(corpus.num_pieces, 5);
  std::vector<index_t> ids;
  for (const Segment& segment : corpus.segments) {
    EXPECT_EQ(segment.num_tokens(), 12);
    EXPECT_EQ(segment.ids.front(), kCls);
    EXPECT_EQ(segment.ids.back(), kSep);
    EXPECT_EQ(segment.tokens.front(), "[CLS]");
    EXPECT_EQ(std::count(segment.special.begin(), segment.special.end(), 1), 2);
    EXPECT_FALSE(segment.word_ids.front());
    EXPECT_EQ(segment.word_ids[3], std::optional<index_t>(2));
    const std::vector<index_t> more = inner(segment);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  EXPECT_EQ(ids, tokenizer.encode(text, {.add_special_tokens = false}).ids);
}

TEST(Corpus, KeepsARestOfSixteenTokensAndAnyRestThatIsAlone) {
  const Tokenizer tokenizer = small_tokenizer(numbered_words(40));
  const auto lengths = [&](index_t words) {
    std::vector<index_t> result;
    for (const Segment& segment : read_corpus(tokenizer, numbered_words(words), {.segment_tokens = 22}).segments) {
      result.push_back(segment.num_tokens() - 2);
    }
    return result;
  };
  EXPECT_EQ(lengths(1), std::vector<index_t>{1});
  EXPECT_EQ(lengths(20), std::vector<index_t>{20});
  EXPECT_EQ(lengths(35), std::vector<index_t>{20});
  EXPECT_EQ(lengths(36), (std::vector<index_t>{20, 16}));
}

TEST(Corpus, SpreadsItsSegmentsOverTheWholeText) {
  const Tokenizer tokenizer = small_tokenizer(numbered_words(100));
  const Corpus corpus = read_corpus(tokenizer, numbered_words(100), {.segment_tokens = 12, .max_segments = 3});
  EXPECT_EQ(corpus.num_pieces, 10);
  ASSERT_EQ(corpus.segments.size(), 3u);
  EXPECT_EQ(corpus.segments[0].ids[1], kFirst);
  EXPECT_EQ(corpus.segments[1].ids[1], kFirst + 30);
  EXPECT_EQ(corpus.segments[2].ids[1], kFirst + 60);
}

TEST(Corpus, ReadsALongTextAsOnePieceWould) {
  const Tokenizer tokenizer = small_tokenizer(numbered_words(9) + " 你 ##x");
  for (const std::string_view space : {" ", "\n", ""}) {
    std::string text;
    while (text.size() < 700'000) text += space.empty() ? "你" : "w1 w2x w3" + std::string(space);
    const std::vector<index_t> whole = tokenizer.encode(text, {.add_special_tokens = false}).ids;
    const Corpus corpus = read_corpus(tokenizer, text, {.segment_tokens = 102, .max_segments = 1 << 20});
    std::vector<index_t> ids;
    for (const Segment& segment : corpus.segments) {
      const std::vector<index_t> more = inner(segment);
      ids.insert(ids.end(), more.begin(), more.end());
    }
    ASSERT_GE(ids.size() + 16, whole.size());
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), whole.begin()));
    EXPECT_EQ(corpus.frequencies.num_tokens, static_cast<index_t>(whole.size()));
  }
}

TEST(Corpus, CountsWordsNotPieces) {
  const Tokenizer tokenizer = small_tokenizer("cat ##s sat");
  const Corpus corpus = read_corpus(tokenizer, "cats sat cat");
  EXPECT_EQ(corpus.segments[0].tokens, (std::vector<std::string>{"[CLS]", "cat", "##s", "sat", "cat", "[SEP]"}));
  EXPECT_EQ(corpus.segments[0].word_ids, (std::vector<std::optional<index_t>>{{}, 0, 0, 1, 2, {}}));
}

TEST(Corpus, RefusesWhatHasNoToken) {
  const Tokenizer tokenizer = small_tokenizer("cat");
  EXPECT_EQ(test::error_of([&] { read_corpus(tokenizer, " \n\t"); }),
            "read_corpus: the text must hold a token of its own, got tokens=0, bytes=3");
  EXPECT_EQ(test::error_of([&] { read_corpus(tokenizer, std::string_view("\0", 1)); }),
            "read_corpus: the text must hold a token of its own, got tokens=0, bytes=1");
  EXPECT_EQ(
      test::error_of([&] { read_corpus(tokenizer, "cat", {.segment_tokens = 2}); }),
      "read_corpus: segment_tokens must have room for a token of the text, got segment_tokens=2, special_tokens=2");
  EXPECT_EQ(test::error_of([&] { read_corpus(tokenizer, "cat", {.max_segments = 0}); }),
            "read_corpus: max_segments must be at least 1, got max_segments=0");
  EXPECT_THROW(read_corpus(tokenizer, "cat \xff"), Error);
}

TEST(Frequencies, RankTiesAlike) {
  const TokenFrequencies found = rank_tokens({0, 5, 2, 2, 9});
  EXPECT_EQ(found.ranks, (std::vector<index_t>{4, 1, 2, 2, 0}));
  EXPECT_EQ(found.num_tokens, 18);
  EXPECT_EQ(found.num_distinct, 4);
}

TEST(RepeatedTokens, AreDistinctAndComeTwice) {
  const Tokenizer tokenizer = small_tokenizer(numbered_words(60) + " [unused0] ? x");
  const TokenFrequencies none = rank_tokens(std::vector<index_t>(68));
  std::set<std::vector<index_t>> all;
  for (const Segment& segment : repeated_tokens(tokenizer, none, {.num_sequences = 20, .num_distinct = 30})) {
    ASSERT_EQ(segment.num_tokens(), 62);
    const std::vector<index_t> ids = inner(segment);
    const std::set<index_t> distinct(ids.begin(), ids.begin() + 30);
    EXPECT_EQ(distinct.size(), 30u);
    EXPECT_TRUE(std::equal(ids.begin(), ids.begin() + 30, ids.begin() + 30));
    EXPECT_GE(*distinct.begin(), kFirst) << "a special token";
    EXPECT_LT(*distinct.rbegin(), kFirst + 60) << "a token in brackets or of one byte";
    all.insert(ids);
  }
  EXPECT_EQ(all.size(), 20u);
}

TEST(RepeatedTokens, ComeFromTheMiddleOfTheFrequenciesWhereThereAreEnough) {
  const Tokenizer tokenizer = small_tokenizer(numbered_words(80));
  std::vector<index_t> counts(85);
  for (index_t n = 0; n < 80; ++n) counts[static_cast<std::size_t>(kFirst + n)] = 80 - n;
  for (const Segment& segment :
       repeated_tokens(tokenizer, rank_tokens(counts), {.num_distinct = 20, .repeats = 4, .seed = 3})) {
    for (const index_t id : inner(segment)) {
      EXPECT_GE(id, kFirst + 20);
      EXPECT_LT(id, kFirst + 60);
    }
    EXPECT_EQ(segment.num_tokens(), 82);
  }
}

TEST(RepeatedTokens, RefuseWhatDoesNotFit) {
  const Tokenizer tokenizer = small_tokenizer("cat sat");
  const TokenFrequencies none = rank_tokens(std::vector<index_t>(7));
  EXPECT_EQ(
      test::error_of([&] { repeated_tokens(tokenizer, none, {.num_distinct = 3}); }),
      "repeated_tokens: the vocabulary must have num_distinct ordinary tokens, got num_distinct=3, ordinary_tokens=2");
  EXPECT_EQ(test::error_of([&] { repeated_tokens(tokenizer, none, {.num_distinct = 1, .repeats = 0}); }),
            "repeated_tokens: options must be at least 1, got num_sequences=10, num_distinct=1, repeats=0");
}

TEST(Observe, GivesWhatOneForwardEachGives) {
  const Tokenizer tokenizer = small_tokenizer(numbered_words(40));
  const Encoder encoder = small_encoder(45);
  std::vector<Segment> segments = read_corpus(tokenizer, numbered_words(40), {.segment_tokens = 12}).segments;
  segments.push_back(read_segment(tokenizer, "w7 w8", 12));
  index_t seen = 0, batches = 0, last_progress = 0;
  const Observer look = [&](const ObservedBatch& batch) {
    EXPECT_EQ(batch.first, seen);
    ++batches;
    for (index_t b = 0; b < static_cast<index_t>(batch.segments.size()); ++b, ++seen) {
      const std::vector<index_t>& ids = segments[static_cast<std::size_t>(seen)].ids;
      const TokenBatch one = pad_batch({&ids, 1});
      const EncoderOutput alone = encoder.forward(one.input(), {.capture = {.hidden = true, .probs = true}});
      const HeadMap map = batch.map(b, 1, 0);
      ASSERT_EQ(map.shape(0), static_cast<index_t>(ids.size()));
      for (index_t i = 0; i < map.shape(0); ++i) {
        for (index_t j = 0; j < map.shape(1); ++j) EXPECT_EQ(map(i, j), alone.heads[1].probs(0, 0, i, j));
        EXPECT_EQ(batch.hidden(b, 1)(i, 3), alone.hidden[1](0, i, 3));
      }
      EXPECT_EQ(batch.head_output(b, 1, 1).shape(), (std::array<index_t, 2>{map.shape(0), 4}));
    }
  };
  const std::array observers{look};
  observe(encoder, segments, observers,
          {.batch_bytes = 2 * 4 * 12 * 12 * 4, .progress = [&](index_t done) { last_progress = done; }});
  EXPECT_EQ(seen, 5);
  EXPECT_EQ(batches, 3);
  EXPECT_EQ(last_progress, 5);
}

TEST(Observe, RefusesAModelOfInfinities) {
  const Tokenizer tokenizer = small_tokenizer("cat sat");
  Encoder encoder = small_encoder(7);
  encoder.embeddings().word.weight(6, 0) = INFINITY;
  const std::vector<Segment> segments = {read_segment(tokenizer, "cat", 9), read_segment(tokenizer, "sat", 9)};
  EXPECT_EQ(test::error_of<Error>([&] { observe(encoder, segments, {}, {.batch_bytes = 1}); }),
            "observe: the model must give finite numbers, got segment=1");
}

}  // namespace
}  // namespace multihead::lens
