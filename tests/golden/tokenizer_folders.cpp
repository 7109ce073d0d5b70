// Settings in the files beside a vocabulary, and the cutting of pairs, held to the reference.
#include "golden/tokenizer_golden.hpp"
#include "multihead/error.hpp"

namespace multihead {
namespace {

namespace golden = tokenizer_golden;

// A case of folder_cases.json as a folder.
void write_case(const TemporaryFolder& folder, const nlohmann::json& each) {
  const nlohmann::json tiny = golden::read(golden::folder() / "tiny.json");
  if (each["vocabulary"] == "tokenizer.json") folder.write("tokenizer.json", tiny.dump());
  if (each["vocabulary"] == "vocab.txt") {
    std::vector<std::string> lines(tiny["model"]["vocab"].size());
    for (const auto& [token, id] : tiny["model"]["vocab"].items()) lines[id.get<std::size_t>()] = token;
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    folder.write("vocab.txt", text);
  }
  folder.write("config.json", R"({"model_type": "bert"})");
  for (const auto& [name, content] : each["files"].items()) folder.write(name, content.dump());
}

TEST(TokenizerFolders, SettingsAreHonouredAsByTheReferenceOrRefused) {
  const nlohmann::json cases = golden::read(golden::folder() / "folder_cases.json");
  index_t num_read = 0, num_refused = 0;
  for (const auto& each : cases["cases"]) {
    SCOPED_TRACE(each["name"].get<std::string>());
    const TemporaryFolder folder;
    write_case(folder, each);
    if (each["ids"].is_null()) {
      EXPECT_THROW(Tokenizer::load(folder.path()), Error);
      ++num_refused;
      continue;
    }
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    for (std::size_t t = 0; t < cases["texts"].size(); ++t) {
      EXPECT_EQ(nlohmann::json(tokenizer.encode(cases["texts"][t].get<std::string>()).ids), each["ids"][t]);
    }
    ++num_read;
  }
  EXPECT_EQ(num_read, 61);
  EXPECT_EQ(num_refused, 18);
}

TEST(TokenizerFolders, PairsAreCutAsByTheReferenceInEveryRoom) {
  const Tokenizer tokenizer = Tokenizer::load(golden::folder() / "tiny.json");
  const auto letters = [](index_t count) {
    std::string text;
    for (index_t i = 0; i < count; ++i) text.append(1, static_cast<char>('a' + i)).append(" ");
    return text;
  };
  for (const auto& each : golden::read(golden::folder() / "pair_rooms.json")) {
    SCOPED_TRACE(each.dump());
    const Encoding e = tokenizer.encode_pair(
        letters(each[0]), letters(each[1]),
        {.max_length = each[2].get<index_t>() + 3, .truncation_side = each[3] == "left" ? Side::left : Side::right});
    std::vector<std::string> first(2);
    std::vector<index_t> kept(2);
    for (std::size_t t = 0; t < e.ids.size(); ++t) {
      if (!e.sequence_ids[t]) continue;
      const auto which = static_cast<std::size_t>(*e.sequence_ids[t]);
      if (kept[which]++ == 0) first[which] = e.tokens[t];
    }
    EXPECT_EQ(nlohmann::json(first), each[4]);
    EXPECT_EQ(nlohmann::json(kept), each[5]);
  }
}

}  // namespace
}  // namespace multihead
