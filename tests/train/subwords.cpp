// Subwords: what is learned, the round trip, the special pieces, and texts that nobody expects.
#include "multihead/train/subwords.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/error_text.hpp"
#include "support/random.hpp"
#include "train/multi30k.hpp"

namespace multihead::test {
namespace {

using train::SubwordCounts;
using train::SubwordOptions;
using train::Subwords;
using train::TextLines;

/// Words of random letters, so that there is something to merge.
std::string random_text(Random& random, index_t num_lines) {
  std::vector<std::string> words;
  for (int n = 0; n < 60; ++n) {
    std::string& word = words.emplace_back();
    for (index_t left = random.integer(1, 8); left > 0; --left) word += static_cast<char>(random.integer('a', 'p'));
  }
  std::string text;
  for (index_t n = 0; n < num_lines; ++n) {
    for (index_t left = random.integer(1, 9); left > 0; --left) text += random.pick(words) + (left > 1 ? " " : "\n");
  }
  return text;
}

Subwords trained_on(std::string text, index_t vocab_size = 60, const SubwordOptions& more = {}) {
  SubwordOptions options = more;
  options.vocab_size = vocab_size;
  const TextLines lines(std::move(text), "text");
  return Subwords::train({&lines, 1}, options);
}

TEST(Subwords, DecodeGivesTheTextBack) {
  Random random(run_seed());
  const std::string text = random_text(random, 200);
  const Subwords subwords = trained_on(text);
  const TextLines lines(text, "text");
  EXPECT_EQ(subwords.vocab_size(), 60);
  for (const std::string_view line : lines.lines()) {
    const auto ids = subwords.encode(line);
    EXPECT_EQ(subwords.decode(ids), line);
    EXPECT_LE(ids.size(), line.size() + 1);  // a space stands before the first word
    EXPECT_TRUE(std::ranges::none_of(ids, [](index_t id) { return id < train::kNumSpecialPieces; }));
  }
}

TEST(Subwords, EqualTextsGiveEqualBytesAndTheBytesAreTheModel) {
  Random random(run_seed());
  const std::string text = random_text(random, 100);
  const Subwords one = trained_on(text);
  trained_on(random_text(random, 100));  // a training in between changes nothing
  EXPECT_EQ(trained_on(text).bytes(), one.bytes());
  const Subwords loaded = Subwords::from_bytes(one.bytes());
  EXPECT_EQ(loaded.encode("abc cba ppp"), one.encode("abc cba ppp"));
  EXPECT_EQ(loaded.vocab_size(), one.vocab_size());
}

TEST(Subwords, SeveralTextsMakeOneVocabulary) {
  const std::vector<TextLines> texts = {{"aaa bbb aaa\n", "a"}, {"ccc ddd ccc\n", "b"}};
  const Subwords subwords = Subwords::train(texts, {.vocab_size = 12});
  for (const char* word : {"aaa", "ddd"}) EXPECT_EQ(subwords.decode(subwords.encode(word)), word);
}

TEST(Subwords, SpecialPiecesHaveFixedIdsAndNoTextReachesThem) {
  std::string text;
  for (int n = 0; n < 50; ++n) text += "<s> </s>x</s> <pad><pad> <unk> < s / p a d x >\n";
  const Subwords subwords = trained_on(text, 19);
  EXPECT_EQ(subwords.piece(train::kPad), "<pad>");
  EXPECT_EQ(subwords.piece(train::kUnk), "<unk>");
  EXPECT_EQ(subwords.piece(train::kBos), "<s>");
  EXPECT_EQ(subwords.piece(train::kEos), "</s>");
  for (const char* given : {"<s>", "</s>", "<pad>", "x</s>", "a <s> </s>"}) {
    const auto ids = subwords.encode(given);
    EXPECT_TRUE(std::ranges::none_of(ids, [](index_t id) { return id == 0 || id == 2 || id == 3; })) << given;
    EXPECT_EQ(subwords.decode(ids), given);
  }
}

TEST(Subwords, DecodeLeavesOutWhatIsNoText) {
  const Subwords subwords = trained_on("ab ab cd\n", 10);
  auto ids = subwords.encode("ab cd");
  ids.insert(ids.begin(), train::kBos);
  ids.insert(ids.end(), {train::kEos, train::kPad, train::kPad});
  EXPECT_EQ(subwords.decode(ids), "ab cd");
  EXPECT_EQ(subwords.decode(std::vector<index_t>{train::kUnk}), " \u2047 ");
  EXPECT_EQ(subwords.decode({}), "");
}

TEST(Subwords, CharactersOfNoLineAreUnknownOrBytes) {
  const std::string text = "ab ab cd\n";
  EXPECT_EQ(trained_on(text, 10).encode("日").back(), train::kUnk);
  const Subwords bytes = trained_on(text, 266, {.byte_fallback = true});
  EXPECT_EQ(bytes.decode(bytes.encode("日本 ab")), "日本 ab");
  EXPECT_TRUE(std::ranges::none_of(bytes.encode("日本"), [](index_t id) { return id == train::kUnk; }));
}

TEST(Subwords, TextIsNormalised) {
  const Subwords subwords = trained_on("ab fi 1 ab\n", 10);
  EXPECT_EQ(subwords.decode(subwords.encode(" \u00A0ab\u3000 \uFB01\t①\r")), "ab fi 1");
  EXPECT_TRUE(subwords.encode("").empty());
  EXPECT_TRUE(subwords.encode(" \t\r\u00A0\u2003").empty());
  const Subwords folded = trained_on("AB ab Cd\n", 9, {.normalization = "nmt_nfkc_cf"});
  EXPECT_EQ(folded.decode(folded.encode("AbC")), "abc");
}

TEST(Subwords, LinesThatAreLeftOutAreCounted) {
  SubwordCounts counts;
  const std::vector<TextLines> texts = {{"ab cd\n\n \r\nab\u2585\n", "a"},
                                        {"ab cd ab cd\nabcd\n" + std::string(21, 'z'), "b"}};
  const Subwords subwords = Subwords::train(texts, {.vocab_size = 10, .max_line_bytes = 20}, &counts);
  EXPECT_EQ(counts.lines, 7);
  EXPECT_EQ(counts.used, 3);
  EXPECT_EQ(counts.empty, 2);
  EXPECT_EQ(counts.too_long, 1);
  EXPECT_EQ(counts.reserved, 1);
  EXPECT_EQ(subwords.encode("z").back(), train::kUnk);
}

TEST(Subwords, StrangeTextsDoNoHarm) {
  using namespace std::string_literals;
  for (const std::string& text : {"a\0b\0 ab\n"s, "\u0301\u0301 e\u0301\n"s, "🐱🐱 👩‍👩‍👧\n"s,
                                  "\uFEFFab ab\n"s, "▁ab ▁ab\n"s, "\x01\x02 ab\tab\n"s, "ab"s + "\n"s}) {
    const TextLines lines(text, "text");
    SubwordOptions options{.vocab_size = 7};
    for (; options.vocab_size < 40; ++options.vocab_size) {
      try {
        const Subwords subwords = Subwords::train({&lines, 1}, options);
        for (const std::string_view line : lines.lines()) subwords.decode(subwords.encode(line));
      } catch (const ShapeError&) {
        continue;
      }
    }
  }
}

TEST(Subwords, AVocabularyThatDoesNotFitIsRefused) {
  const auto error = [](const std::string& text, index_t vocab_size) {
    return error_of([&] { trained_on(text, vocab_size); });
  };
  EXPECT_EQ(
      error("ab ab cd\n", 500),
      "Subwords::train: vocab_size must be at most what the lines carry, got vocab_size=500, pieces=15, lines=1; ask "
      "for fewer pieces, or give more text");
  EXPECT_EQ(error("ab ab cd\n", 8),
            "Subwords::train: vocab_size must have room for the special pieces and every character of the lines, got "
            "vocab_size=8, needed=9");
  EXPECT_EQ(error("ab ab cd\n", 4), "Subwords::train: vocab_size must be in [5, 1000000], got vocab_size=4");
  EXPECT_EQ(
      error("\n \n", 100),
      "Subwords::train: the texts must hold a line that can be used, got lines=2, empty=2, too_long=0, reserved=0");
  EXPECT_EQ(
      error("", 100),
      "Subwords::train: the texts must hold a line that can be used, got lines=0, empty=0, too_long=0, reserved=0");
  EXPECT_EQ(error_of([] { trained_on("ab\n", 7, {.normalization = "NFC"}); }),
            "Subwords::train: normalization must be nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity, got "
            "normalization=NFC");
}

TEST(Subwords, WhatIsNoModelIsRefused) {
  const std::string model = trained_on("ab ab cd\n", 10).bytes();
  for (const std::string& bytes : {std::string(), std::string("model"), model.substr(0, model.size() / 2)}) {
    EXPECT_EQ(
        error_of<CheckpointError>([&] { Subwords::from_bytes(bytes); }),
        "Subwords::from_bytes: the bytes must be a SentencePiece model, got bytes=" + std::to_string(bytes.size()));
  }
  const Subwords subwords = Subwords::from_bytes(model);
  EXPECT_EQ(error_of([&] {
              subwords.decode(std::vector<index_t>{4, 10});
            }),
            "Subwords::decode: ids must be in [0, vocab_size), got id=10, vocab_size=10");
  EXPECT_EQ(error_of([&] { subwords.piece(-1); }),
            "Subwords::piece: ids must be in [0, vocab_size), got id=-1, vocab_size=10");
  EXPECT_EQ(error_of<Error>([&] { subwords.encode("a\xFF"); }),
            "Subwords::encode: text must be UTF-8, got byte=0xFF, position=1");
}

TEST(Subwords, CaptionsComeBackWhole) {
  const auto de = multi30k("val.de"), en = multi30k("val.en");
  if (!de || !en) GTEST_SKIP() << "Multi30k is neither in $MULTIHEAD_DATA nor in ../shared/data";
  const std::vector<TextLines> texts = {*de, *en};
  const Subwords subwords = Subwords::train(texts, {.vocab_size = 2000});
  EXPECT_EQ(subwords.vocab_size(), 2000);
  for (const TextLines& text : texts) {
    for (const std::string_view line : text.lines()) {
      const std::string once = subwords.decode(subwords.encode(line));
      EXPECT_EQ(subwords.decode(subwords.encode(once)), once);
      const bool is_plain = line.find("  ") == std::string_view::npos && line.back() != ' ' && line.front() != ' ' &&
                            std::ranges::all_of(line, [](char c) { return c > 0; });
      if (is_plain) {
        EXPECT_EQ(once, line);
      }
    }
  }
}

}  // namespace
}  // namespace multihead::test
