// BLEU against sacreBLEU 2.6.0, whose numbers and tokens these are:
//   sacrebleu.corpus_bleu(translations, [references]) and Tokenizer13a()(line.rstrip()).split()
#include "multihead/train/bleu.hpp"

#include <gtest/gtest.h>

#include "support/error_text.hpp"
#include "support/random.hpp"
#include "train/multi30k.hpp"

namespace multihead::test {
namespace {

using train::Bleu;
using train::tokens_13a;

using Lines = std::vector<std::string>;

TEST(Bleu, SplitsLinesAs13aDoes) {
  const std::vector<std::pair<std::string, Lines>> cases = {
      {"Hello, world.", {"Hello", ",", "world", "."}},
      {"It's 3.5 or 1,000; no-one knows.", {"It's", "3.5", "or", "1,000", ";", "no-one", "knows", "."}},
      {"a..b,.c", {"a", ".", ".", "b", ",", ".", "c"}},
      {"5-6 x-y -7", {"5", "-", "6", "x-y", "-7"}},
      {"&quot;a&amp;lt;b&apos;", {"\"", "a", "<", "b", "&", "apos", ";"}},
      {"<skipped>x", {"x"}},
      {"(a)[b]{c}/d", {"(", "a", ")", "[", "b", "]", "{", "c", "}", "/", "d"}},
      {"Ein „Hund“.", {"Ein", "„Hund“", "."}},
      {"a\u00a0b\u2009c", {"a", "b", "c"}},
      {"1.a .1 ,", {"1", ".", "a", ".", "1", ","}},
      {"..", {".", "."}},
      {"1990-", {"1990", "-"}},
      {" \t ", {}},
      {"", {}},
  };
  for (const auto& [line, expected] : cases) EXPECT_EQ(tokens_13a(line), expected) << line;
}

struct Case {
  Lines translations, references;
  Bleu expected;
};

TEST(Bleu, IsThatOfSacreBleu) {
  const Case cases[] = {
      {{"a cat sat", "b"}, {"a cat sat on the mat", "c"}, {0, {75, 100, 100, 0}, 0.4723665527410147, 4, 7}},
      {{"the quick fox"}, {"the slow fox jumped"}, {0, {66.66666666666667, 25, 25, 0}, 0.7165313105737893, 3, 4}},
      {{"x y z w v"}, {"x q z r v"}, {14.058533129758727, {60, 12.5, 8.333333333333334, 6.25}, 1, 5, 5}},
      {{"nothing at all here"}, {"other words"}, {0, {0, 0, 0, 0}, 1, 4, 2}},
      {{""}, {"a"}, {0, {0, 0, 0, 0}, 0, 0, 1}},
      {{"a b"}, {"a b"}, {0, {100, 100, 0, 0}, 1, 2, 2}},
      {{"x y a b c x y z"},
       {"x y d e f"},
       {11.044795567078939, {25, 14.285714285714286, 8.333333333333334, 5}, 1, 8, 5}},
  };
  for (const auto& [translations, references, expected] : cases) {
    const Bleu got = train::bleu(translations, references);
    EXPECT_NEAR(got.score, expected.score, 1e-12) << translations[0];
    for (std::size_t n = 0; n < 4; ++n) EXPECT_NEAR(got.precisions[n], expected.precisions[n], 1e-12) << n;
    EXPECT_NEAR(got.brevity_penalty, expected.brevity_penalty, 1e-15) << translations[0];
    EXPECT_EQ(got.length, expected.length) << translations[0];
    EXPECT_EQ(got.reference_length, expected.reference_length) << translations[0];
  }
}

TEST(Bleu, DoesNotDependOnTheOrderOfTheLines) {
  Random random(run_seed());
  Lines translations, references;
  for (int n = 0; n < 20; ++n) {
    std::string line;
    for (index_t left = random.integer(4, 12); left > 0; --left)
      line += std::string(1, "abc"[random.integer(0, 2)]) + " ";
    translations.push_back(line);
    references.push_back(line.substr(0, line.size() / 2) + "d");
  }
  const double score = train::bleu(translations, references).score;
  EXPECT_GT(score, 0);
  EXPECT_LT(score, 100);
  EXPECT_NEAR(train::bleu(references, references).score, 100, 1e-12);
  const Lines backwards(translations.rbegin(), translations.rend());
  EXPECT_EQ(train::bleu(backwards, Lines(references.rbegin(), references.rend())).score, score);
}

// The number of tokens that is printed beside published scores of this test set.
TEST(Bleu, CountsTheReferenceTokensOfMulti30k) {
  const auto text = multi30k("test_2016_flickr.de");
  if (!text) GTEST_SKIP() << "no multi30k in MULTIHEAD_DATA or ../shared/data";
  Lines lines;
  for (index_t n = 0; n < text->size(); ++n) lines.emplace_back((*text)[n]);
  const Bleu self = train::bleu(lines, lines);
  EXPECT_EQ(self.reference_length, 12106);
  EXPECT_NEAR(self.score, 100, 1e-12);
}

TEST(Bleu, RefusesWhatCannotBeCompared) {
  EXPECT_EQ(error_of([] {
              train::bleu(Lines{"a"}, Lines{"a", "b"});
            }),
            "bleu: translations and references must be as many, and at least 1, got translations=1, references=2");
  EXPECT_EQ(error_of([] { train::bleu({}, {}); }),
            "bleu: translations and references must be as many, and at least 1, got translations=0, references=0");
  EXPECT_EQ(error_of<Error>([] { tokens_13a("a\xff"); }), "tokens_13a: text must be UTF-8, got byte=0xFF, position=1");
}

}  // namespace
}  // namespace multihead::test
