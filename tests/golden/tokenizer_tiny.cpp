// The whole mechanism on a vocabulary made by hand: every step that is handled, against the reference library.
#include "golden/tokenizer_golden.hpp"

namespace multihead {
namespace {

using namespace tokenizer_golden;

TEST(TokenizerTiny, EveryStepEqualsTheReference) {
  const auto golden = read(folder() / "tiny_cases.json");
  EXPECT_EQ(check_groups(read(folder() / "tiny.json"), golden["groups"]), 336);
}

TEST(TokenizerTiny, PairsAndTruncationEqualTheReference) {
  const Tokenizer tokenizer = Tokenizer::load(folder() / "tiny.json");
  for (const auto& c : read(folder() / "tiny_cases.json")["pairs"]) {
    SCOPED_TRACE(c.dump());
    const auto a = c["a"].get<std::string>();
    const auto b = c["b"].get<std::string>();
    EncodeOptions options = {.truncation_side = c["side"] == "left" ? Side::left : Side::right};
    if (!c["max_length"].is_null()) options.max_length = c["max_length"].get<index_t>();
    const Encoding e = tokenizer.encode_pair(a, b, options);
    EXPECT_EQ(nlohmann::json(e.ids), c["ids"]);
    EXPECT_EQ(nlohmann::json(e.type_ids), c["type_ids"]);
    EXPECT_EQ(optionals(e.word_ids), c["word_ids"]);
    EXPECT_EQ(optionals(e.sequence_ids), c["sequence_ids"]);
    EXPECT_EQ(spans(e.offsets), c["offsets"]);  // these texts are ASCII
    EXPECT_EQ(e.num_tokens_uncut, tokenizer.encode_pair(a, b).num_tokens());
    EXPECT_EQ(e.truncated(), options.max_length.value_or(1000) < e.num_tokens_uncut);
  }
}

TEST(TokenizerTiny, DecodingEqualsTheReference) {
  const Tokenizer tokenizer = Tokenizer::load(folder() / "tiny.json");
  for (const auto& c : read(folder() / "tiny_cases.json")["decoded"]) {
    const auto ids = c[0].get<std::vector<index_t>>();
    EXPECT_EQ(tokenizer.decode(ids), c[1].get<std::string>()) << c.dump();
    EXPECT_EQ(tokenizer.decode(ids, {.skip_special_tokens = false}), c[2]) << c.dump();
  }
}

}  // namespace
}  // namespace multihead
