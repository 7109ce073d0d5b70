// Bad files and bad input: the whole text of every error.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "models/files.hpp"
#include "multihead/error.hpp"
#include "multihead/tokenizer.hpp"

namespace multihead {
namespace {

using nlohmann::json;

json tiny() {
  std::ifstream stream(std::string(MULTIHEAD_SOURCE_DIR) + "/tests/golden/tokenizer/tiny.json");
  return json::parse(stream);
}

const Tokenizer& tokenizer() {
  static const auto loaded = Tokenizer::load(std::string(MULTIHEAD_SOURCE_DIR) + "/tests/golden/tokenizer/tiny.json");
  return loaded;
}

// The error of a file, without the folder that it happens to lie in.
template <class E>
std::string load_error(const TemporaryFolder& folder, const std::string& name) {
  std::string text = error_of<E>([&] { Tokenizer::load(folder / name); });
  const std::string prefix = folder.path().string() + "/";
  if (const auto at = text.find(prefix); at != std::string::npos) text.erase(at, prefix.size());
  return text;
}

template <class E>
std::string content_error(const std::string& content) {
  const TemporaryFolder folder;
  folder.write("t.json", content);
  return load_error<E>(folder, "t.json");
}

template <class E>
std::string patch_error(const json& patch) {
  json document = tiny();
  document.merge_patch(patch);
  return content_error<E>(document.dump());
}

// The same at a place in an array, which a merge patch cannot reach.
template <class E>
std::string pointer_error(const std::string& pointer, const json& value) {
  json document = tiny();
  document[json::json_pointer(pointer)] = value;
  return content_error<E>(document.dump());
}

TEST(TokenizerErrors, NoFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(load_error<CheckpointError>(folder, ""),
            "Tokenizer::load: the folder must hold tokenizer.json or vocab.txt, got found=nothing (\"\")");
  EXPECT_THROW(Tokenizer::load(folder / "absent.json"), CheckpointError);
}

TEST(TokenizerErrors, DamagedFiles) {
  EXPECT_EQ(content_error<CheckpointError>("{\"model\": {\"type\""),
            "Tokenizer::load: the file must be valid JSON in UTF-8, got error_at_byte=18 (\"t.json\")");
  EXPECT_EQ(content_error<CheckpointError>("[]"),
            "Tokenizer::load: the file must be an object, got type=array (\"t.json\")");
  EXPECT_EQ(content_error<CheckpointError>("{}"), "Tokenizer::load: model must be there (\"t.json\")");
  EXPECT_EQ(patch_error<CheckpointError>({{"model", {{"unk_token", nullptr}}}}),
            "Tokenizer::load: model.unk_token must be there (\"t.json\")");
  EXPECT_EQ(patch_error<CheckpointError>({{"model", {{"unk_token", 3}}}}),
            "Tokenizer::load: model.unk_token must be a string, got type=number (\"t.json\")");
  EXPECT_EQ(patch_error<CheckpointError>({{"model", {{"vocab", {{"a", -1}}}}}}),
            "Tokenizer::load: model.vocab.a must be an integer from 0 to 2147483647, got value=-1 (\"t.json\")");
  EXPECT_EQ(
      patch_error<CheckpointError>({{"model", {{"vocab", {{"a", 2147483648}}}}}}),
      "Tokenizer::load: model.vocab.a must be an integer from 0 to 2147483647, got value=2147483648 (\"t.json\")");
  EXPECT_EQ(patch_error<CheckpointError>({{"model", {{"vocab", {{"a", 1.5}}}}}}),
            "Tokenizer::load: model.vocab.a must be an integer from 0 to 2147483647, got value=1.5 (\"t.json\")");
  EXPECT_EQ(patch_error<CheckpointError>({{"added_tokens", "x"}}),
            "Tokenizer::load: added_tokens must be an array, got type=string (\"t.json\")");
  EXPECT_EQ(patch_error<CheckpointError>({{"normalizer", {{"lowercase", "yes"}}}}),
            "Tokenizer::load: normalizer.lowercase must be true or false, got type=string (\"t.json\")");
  EXPECT_EQ(patch_error<CheckpointError>(
                {{"padding", {{"pad_id", 0}, {"pad_type_id", 0}, {"pad_token", "[PAD]"}, {"direction", "Up"}}}}),
            "Tokenizer::load: padding.direction must be Left or Right, got value=\"Up\" (\"t.json\")");
}

TEST(TokenizerErrors, FilesThatContradictThemselves) {
  EXPECT_EQ(patch_error<CheckpointError>({{"model", {{"unk_token", "<unk>"}}}}),
            "Tokenizer::load: model.unk_token must be in the vocabulary, got unk_token=\"<unk>\" (\"t.json\")");
  EXPECT_EQ(
      patch_error<CheckpointError>({{"model", {{"vocab", {{"zz", 5}}}}}}),
      "Tokenizer::load: model.vocab.zz must be an id that no other token has, got id=5, other=\"hello\" (\"t.json\")");
  EXPECT_EQ(pointer_error<CheckpointError>("/added_tokens/4/id", 7),
            "Tokenizer::load: added_tokens[4] must have the id that the vocabulary gives it, got content=\"[MASK]\", "
            "id=7, expected=4 (\"t.json\")");
  EXPECT_EQ(pointer_error<CheckpointError>("/added_tokens/4/content", "<new>"),
            "Tokenizer::load: added_tokens[4] must have the id that the vocabulary gives it, got content=\"<new>\", "
            "id=4, expected=" +
                std::to_string(tiny()["model"]["vocab"].size()) + " (\"t.json\")");
  EXPECT_EQ(pointer_error<CheckpointError>("/post_processor/special_tokens/[CLS]/ids/0", 5),
            "Tokenizer::load: post_processor.special_tokens.[CLS].tokens[0] must have the id that the vocabulary gives "
            "it, got token=\"[CLS]\", id=5, expected=2 (\"t.json\")");
  EXPECT_EQ(
      pointer_error<CheckpointError>("/post_processor/special_tokens/[CLS]/tokens/0", "<s>"),
      "Tokenizer::load: post_processor.special_tokens.[CLS].tokens[0] must be in the vocabulary, got token=\"<s>\" "
      "(\"t.json\")");
  EXPECT_EQ(pointer_error<CheckpointError>("/post_processor/special_tokens/[CLS]/ids", {2, 3}),
            "Tokenizer::load: post_processor.special_tokens.[CLS] must have as many ids as tokens, got ids=2, tokens=1 "
            "(\"t.json\")");
  EXPECT_EQ(pointer_error<CheckpointError>("/post_processor/single/0/SpecialToken/id", "<s>"),
            "Tokenizer::load: post_processor.special_tokens.<s> must be there (\"t.json\")");
  EXPECT_EQ(pointer_error<CheckpointError>("/post_processor/single/1/Sequence/id", "B"),
            "Tokenizer::load: post_processor.single must use each of its texts once and no other, got text=A, uses=0, "
            "expected=1 (\"t.json\")");
  EXPECT_EQ(pointer_error<CheckpointError>("/post_processor/single/1/Sequence/id", "C"),
            "Tokenizer::load: post_processor.single[1].Sequence must be A or B, got id=\"C\" (\"t.json\")");
}

TEST(TokenizerErrors, KindsThatAreNotHandled) {
  EXPECT_EQ(
      patch_error<UnsupportedError>({{"model", {{"type", "BPE"}}}}),
      "Tokenizer::load: model is of a kind that is not handled, got kind=\"BPE\"; handled: WordPiece (\"t.json\")");
  EXPECT_EQ(patch_error<UnsupportedError>({{"normalizer", {{"type", "Precompiled"}}}}),
            "Tokenizer::load: normalizer is of a kind that is not handled, got kind=\"Precompiled\"; handled: "
            "BertNormalizer, Lowercase, NFC, NFD, NFKC, NFKD, Sequence, Strip, StripAccents (\"t.json\")");
  EXPECT_EQ(patch_error<UnsupportedError>(
                {{"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {{{"type", "ByteLevel"}}}}}}}),
            "Tokenizer::load: pre_tokenizer.pretokenizers[0] is of a kind that is not handled, got kind=\"ByteLevel\"; "
            "handled: BertPreTokenizer, Punctuation, Sequence, Whitespace, WhitespaceSplit (\"t.json\")");
  EXPECT_EQ(patch_error<UnsupportedError>({{"pre_tokenizer", {{"type", "Punctuation"}, {"behavior", "Contiguous"}}}}),
            "Tokenizer::load: pre_tokenizer.behavior is of a kind that is not handled, got kind=\"Contiguous\"; "
            "handled: Isolated (\"t.json\")");
  EXPECT_EQ(
      patch_error<UnsupportedError>({{"post_processor", {{"type", "RobertaProcessing"}}}}),
      "Tokenizer::load: post_processor is of a kind that is not handled, got kind=\"RobertaProcessing\"; handled: "
      "BertProcessing, TemplateProcessing (\"t.json\")");
  EXPECT_EQ(
      patch_error<UnsupportedError>({{"decoder", {{"type", "CTC"}}}}),
      "Tokenizer::load: decoder is of a kind that is not handled, got kind=\"CTC\"; handled: WordPiece (\"t.json\")");
}

TEST(TokenizerErrors, FilesAreReadToAnEndHoweverDeepTheyAre) {
  const std::string content = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_EQ(content_error<CheckpointError>(content),
            "Tokenizer::load: JSON must be nested at most 64 deep (\"t.json\")");
}

TEST(TokenizerErrors, InputThatIsNotUtf8) {
  EXPECT_EQ(error_of<Error>([] { tokenizer().encode("caf\xE9 au lait"); }),
            "Tokenizer::encode: text must be UTF-8, got byte=0xE9, position=3");
  EXPECT_EQ(error_of<Error>([] { tokenizer().encode_pair("a", "b\xED\xA0\x80"); }),
            "Tokenizer::encode: text must be UTF-8, got byte=0xED, position=1");
}

TEST(TokenizerErrors, OptionsThatCannotBeMet) {
  EXPECT_EQ(error_of<ShapeError>([] { tokenizer().encode("a", {.max_length = 1}); }),
            "Tokenizer::encode: max_length must hold the tokens that are added, got max_length=1, added=2");
  EXPECT_EQ(error_of<ShapeError>([] { tokenizer().encode_pair("a", "b", {.max_length = 2}); }),
            "Tokenizer::encode: max_length must hold the tokens that are added, got max_length=2, added=3");
  EXPECT_EQ(error_of<ShapeError>([] { tokenizer().encode("a", {.add_special_tokens = false, .max_length = -1}); }),
            "Tokenizer::encode: max_length must hold the tokens that are added, got max_length=-1, added=0");
  const index_t size = tokenizer().vocab_size();
  const std::vector<index_t> ids = {5, size};
  EXPECT_EQ(error_of<ShapeError>([&] { tokenizer().decode(ids); }),
            "Tokenizer::decode: id must be in the vocabulary, got id=" + std::to_string(size) +
                ", position=1, vocab_size=" + std::to_string(size));
  const TextSpan inside[] = {{0, 2}};
  EXPECT_EQ(
      error_of<ShapeError>([&] { code_point_offsets("a\xC3\xA9", inside); }),
      "code_point_offsets: offset must be where a code point begins or the text ends, got offset=2, text_bytes=3");
  const TextSpan beyond[] = {{0, 4}};
  EXPECT_EQ(
      error_of<ShapeError>([&] { code_point_offsets("a\xC3\xA9", beyond); }),
      "code_point_offsets: offset must be where a code point begins or the text ends, got offset=4, text_bytes=3");
}

TEST(TokenizerErrors, VocabularyFiles) {
  const TemporaryFolder folder;
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\nhello\n");
  EXPECT_EQ(load_error<CheckpointError>(folder, ""),
            "Tokenizer::load: the vocabulary must hold the special tokens, got missing=\"[SEP]\" (\"vocab.txt\")");
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nh\xE9llo\n");
  EXPECT_EQ(load_error<CheckpointError>(folder, ""),
            "Tokenizer::load: the file must be UTF-8, got error_at_byte=25 (\"vocab.txt\")");
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\n");
  folder.write("tokenizer_config.json", "{\"do_lower_case\": 1}");
  EXPECT_EQ(load_error<CheckpointError>(folder, ""),
            "Tokenizer::load: tokenizer_config.do_lower_case must be true or false, got type=number "
            "(\"tokenizer_config.json\")");
}

}  // namespace
}  // namespace multihead
