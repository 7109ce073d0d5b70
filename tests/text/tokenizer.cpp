// What a reader should know about a tokenizer, said with small texts.
#include "multihead/tokenizer.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "models/files.hpp"

namespace multihead {
namespace {

using nlohmann::json;
using Tokens = std::vector<std::string>;
using Spans = std::vector<TextSpan>;

json tiny() {
  std::ifstream stream(std::string(MULTIHEAD_SOURCE_DIR) + "/tests/golden/tokenizer/tiny.json");
  return json::parse(stream);
}

Tokenizer load_tiny(const json& patch = json::object()) {
  json document = tiny();
  document.merge_patch(patch);
  const TemporaryFolder folder;
  return Tokenizer::load(folder.write("tokenizer.json", document.dump()));
}

json bert(bool lowercase, const json& strip_accents) {
  return {{"normalizer", {{"lowercase", lowercase}, {"strip_accents", strip_accents}}}};
}

TEST(Tokenizer, OffsetsAreBytesOfTheOriginal) {
  const std::string text = "  C\u0041F\u00C9\u00AD, playing";  // a soft hyphen is dropped
  const Encoding e = load_tiny().encode(text);
  EXPECT_EQ(e.tokens, (Tokens{"[CLS]", "cafe", ",", "play", "##ing", "[SEP]"}));
  EXPECT_EQ(e.offsets, (Spans{{0, 0}, {2, 7}, {9, 10}, {11, 15}, {15, 18}, {0, 0}}));
  EXPECT_EQ(text.substr(2, 5), "CAF\u00C9");
  EXPECT_EQ(code_point_offsets(text, e.offsets), (Spans{{0, 0}, {2, 6}, {7, 8}, {9, 13}, {13, 16}, {0, 0}}));
}

// Accent stripping takes the sound mark of BA and DE; it must not when it is off. Unset, it follows lower-casing.
TEST(Tokenizer, KanaKeepTheirSoundMarksUnlessAccentsAreStripped) {
  struct Case {
    bool lowercase;
    json strip_accents;
    bool stripped;
  };
  for (const Case& c : {Case{true, nullptr, true}, Case{false, nullptr, false}, Case{true, true, true},
                        Case{false, true, true}, Case{true, false, false}, Case{false, false, false}}) {
    const Tokenizer tokenizer = load_tiny(bert(c.lowercase, c.strip_accents));
    SCOPED_TRACE(c.strip_accents.dump() + (c.lowercase ? " lower" : " cased"));
    const Encoding composed = tokenizer.encode("\u30D0 \u3067", {.add_special_tokens = false});
    EXPECT_EQ(composed.tokens, c.stripped ? (Tokens{"\u30CF", "\u3066"}) : (Tokens{"\u30D0", "\u3067"}));
    EXPECT_EQ(composed.offsets, (Spans{{0, 3}, {4, 7}}));
    const Encoding parts = tokenizer.encode("\u30CF\u3099 \u3066\u3099", {.add_special_tokens = false});
    EXPECT_EQ(parts.tokens, c.stripped ? (Tokens{"\u30CF", "\u3066"}) : (Tokens{"\u30CF\u3099", "\u3066\u3099"}));
    EXPECT_EQ(parts.offsets, c.stripped ? (Spans{{0, 3}, {7, 10}}) : (Spans{{0, 6}, {7, 13}}));
  }
}

TEST(Tokenizer, PiecesOfOneCharacterAllPointAtIt) {
  const Encoding e = load_tiny().encode("a \uD55C b", {.add_special_tokens = false});
  EXPECT_EQ(e.tokens, (Tokens{"a", "\u1112", "##\u1161", "##\u11AB", "b"}));  // the syllable as its three letters
  EXPECT_EQ(e.offsets, (Spans{{0, 1}, {2, 5}, {2, 5}, {2, 5}, {6, 7}}));
}

TEST(Tokenizer, EmptyTexts) {
  const Tokenizer tokenizer = load_tiny();
  for (const std::string text : {"", "   ", "\t\n", "\u00AD", "\u0301"}) {
    const Encoding bare = tokenizer.encode(text, {.add_special_tokens = false});
    EXPECT_EQ(bare.num_tokens(), 0);
    EXPECT_TRUE(bare.tokens.empty() && bare.offsets.empty() && bare.word_ids.empty() && bare.type_ids.empty());
    EXPECT_EQ(tokenizer.encode(text).tokens, (Tokens{"[CLS]", "[SEP]"}));
  }
  EXPECT_EQ(tokenizer.decode({}), "");
}

TEST(Tokenizer, TheFirstWordIsLikeAnyOther) {
  const Tokenizer tokenizer = load_tiny();
  const auto ids = [&](std::string_view text) { return tokenizer.encode(text, {.add_special_tokens = false}).ids; };
  EXPECT_EQ(ids("hello"), ids(" hello"));
  EXPECT_EQ(ids("hello hello"), (std::vector<index_t>{ids("hello")[0], ids("hello")[0]}));
}

TEST(Tokenizer, PlainTextsComeBack) {
  const Tokenizer tokenizer = load_tiny();
  for (const std::string text : {"hello world", "playing the unplayed", "hello, world!"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text).ids), text);
  }
}

TEST(Tokenizer, SpecialTokensInTheTextAreTokensOfTheText) {
  const Encoding e = load_tiny().encode("a[MASK] [sep]");
  EXPECT_EQ(e.tokens, (Tokens{"[CLS]", "a", "[MASK]", "[", "s", "##e", "##p", "]", "[SEP]"}));
  EXPECT_EQ(e.special_tokens_mask, (std::vector<std::uint8_t>{1, 0, 0, 0, 0, 0, 0, 0, 1}));
}

TEST(Tokenizer, CutTextsSayHowLongTheyWere) {
  const Tokenizer tokenizer = load_tiny();
  const Encoding whole = tokenizer.encode("a b c d e");
  EXPECT_EQ(whole.num_tokens_uncut, 7);
  EXPECT_FALSE(whole.truncated());
  const Encoding cut = tokenizer.encode("a b c d e", {.max_length = 4});
  EXPECT_EQ(cut.tokens, (Tokens{"[CLS]", "a", "b", "[SEP]"}));
  EXPECT_EQ(cut.num_tokens_uncut, 7);
  EXPECT_TRUE(cut.truncated());
  const Encoding left = tokenizer.encode("a b c d e", {.max_length = 4, .truncation_side = Side::left});
  EXPECT_EQ(left.tokens, (Tokens{"[CLS]", "d", "e", "[SEP]"}));
  EXPECT_EQ(left.offsets[1], (TextSpan{6, 7}));
}

// A file's own limits are shown, and leave encode as it is.
TEST(Tokenizer, FilesProposeLimits) {
  const Tokenizer plain = load_tiny();
  EXPECT_FALSE(plain.truncation() || plain.padding());
  const json truncation = {{"max_length", 3}, {"strategy", "LongestFirst"}, {"stride", 0}, {"direction", "Left"}};
  json padding = {
      {"strategy", {{"Fixed", 8}}}, {"direction", "Right"}, {"pad_id", 0}, {"pad_type_id", 1}, {"pad_token", "[PAD]"}};
  const Tokenizer proposing = load_tiny({{"truncation", truncation}, {"padding", padding}});
  EXPECT_EQ(proposing.encode("a b c d").ids, plain.encode("a b c d").ids);
  ASSERT_TRUE(proposing.truncation() && proposing.padding());
  EXPECT_EQ(proposing.truncation()->max_length, 3);
  EXPECT_EQ(proposing.truncation()->side, Side::left);
  EXPECT_EQ(proposing.padding()->token, "[PAD]");
  EXPECT_EQ(proposing.padding()->type_id, 1);
  EXPECT_EQ(proposing.padding()->length, 8);
  padding["strategy"] = "BatchLongest";
  EXPECT_EQ(load_tiny({{"padding", padding}}).padding()->length, std::nullopt);
}

TEST(Tokenizer, IdsAndTokens) {
  const Tokenizer tokenizer = load_tiny();
  EXPECT_EQ(tokenizer.vocab_size(), static_cast<index_t>(tiny()["model"]["vocab"].size()));
  for (index_t id = 0; id < tokenizer.vocab_size(); ++id) {
    EXPECT_EQ(tokenizer.token_to_id(tokenizer.id_to_token(id).value()), id);
  }
  EXPECT_EQ(tokenizer.token_to_id("absent"), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(tokenizer.vocab_size()), std::nullopt);
}

// vocab.txt and tokenizer_config.json stand for the tokenizer.json that they describe.
TEST(Tokenizer, OldFoldersAreReadFromTheirVocabulary) {
  const json document = tiny();
  std::vector<std::string> lines(document["model"]["vocab"].size());
  for (const auto& [token, id] : document["model"]["vocab"].items()) lines[id.get<std::size_t>()] = token;
  std::string vocab;
  for (const std::string& line : lines) vocab += line + (vocab.size() % 2 ? "\r\n" : "\n");
  const TemporaryFolder folder;
  folder.write("vocab.txt", vocab);
  const std::string text = "Hello CAF\u00C9 \u4E2D\u6587 [MASK] un";
  EXPECT_EQ(Tokenizer::load(folder.path()).encode(text).tokens, load_tiny().encode(text).tokens);
  folder.write("tokenizer_config.json",
               R"({"do_lower_case": false, "tokenize_chinese_chars": false, "sep_token": {"content": "[X]"}})");
  const Encoding cased = Tokenizer::load(folder.path()).encode(text);
  EXPECT_EQ(cased.tokens, (Tokens{"[CLS]", "Hello", "[UNK]", "\u4E2D", "##\u6587", "[MASK]", "un", "[X]"}));
}

}  // namespace
}  // namespace multihead
