// MiniLM's own tokenizer.json: hostile texts, every code point, whole corpora.
#include <array>
#include <memory>

#include "golden/tokenizer_golden.hpp"
#include "text/utf8.hpp"

namespace multihead {
namespace {

using namespace tokenizer_golden;

class TokenizerMiniLm : public testing::Test {
 protected:
  void SetUp() override {
    const auto file = minilm_file();
    if (!file) GTEST_SKIP() << "MiniLM is not in the cache folder; scripts/get-model minilm puts it there";
    document_ = read(*file);
  }

  nlohmann::json document_;
};

const nlohmann::json kCased = {{"normalizer", {{"lowercase", false}}}};

TEST_F(TokenizerMiniLm, HostileTextsEqualTheReference) {
  const auto groups = read(folder() / "minilm_cases.json")["groups"];
  ASSERT_GE(groups[0]["cases"].size(), 200u);
  EXPECT_GE(check_groups(document_, groups), 308);
}

TEST_F(TokenizerMiniLm, EveryCodePointEqualsTheReference) {
  const auto blocks = read(folder() / "digests.json")["code_points"];
  const std::array tokenizers = {load(document_, nlohmann::json::object()), load(document_, kCased)};
  constexpr char32_t kBlock = 0x2000;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    for (std::size_t variant = 0; variant < tokenizers.size(); ++variant) {
      Digest digest;
      for (auto c = static_cast<char32_t>(block * kBlock); c < (block + 1) * kBlock; ++c) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        std::string text = "a";
        append_utf8(text, c);
        text += "b ";
        append_utf8(text, c);
        digest.add(text, tokenizers[variant].encode(text));
      }
      EXPECT_EQ(digest.text(), blocks[block][variant].get<std::string>())
          << "code points from " << block * kBlock << ", variant " << variant;
    }
  }
}

// ---- corpora

std::optional<std::filesystem::path> data_folder() {
  const char* given = std::getenv("MULTIHEAD_DATA");
  const std::filesystem::path path =
      given && *given ? given : std::filesystem::path(MULTIHEAD_SOURCE_DIR).parent_path() / "shared" / "data";
  return std::filesystem::exists(path / "multi30k") ? std::optional(path) : std::nullopt;
}

std::string read_maybe_compressed(const std::filesystem::path& path) {
  if (path.extension() != ".gz") return read_bytes(path);
  const std::string command = "gzip -dc '" + path.string() + "'";
  const auto close = [](std::FILE* pipe) { ::pclose(pipe); };
  const std::unique_ptr<std::FILE, decltype(close)> pipe(::popen(command.c_str(), "r"), close);
  std::string bytes;
  std::array<char, 65536> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) bytes.append(buffer.data(), n);
  return bytes;
}

// Lines of a text file; of a CoNLL-U file the sentences alone.
std::vector<std::string> read_texts(const std::filesystem::path& path) {
  constexpr std::string_view kMark = "# text = ";
  const bool conllu = path.extension() == ".conllu";
  const std::string content = read_maybe_compressed(path);
  std::vector<std::string> texts;
  for (std::size_t begin = 0, end; begin < content.size(); begin = end + 1) {
    end = std::min(content.find('\n', begin), content.size());
    const std::string line = content.substr(begin, end - begin);
    if (!conllu) texts.push_back(line);
    if (conllu && line.starts_with(kMark)) texts.push_back(line.substr(kMark.size()));
  }
  return texts;
}

void check_corpus(const Tokenizer& tokenizer, const std::vector<std::string>& texts, const nlohmann::json& expected) {
  Digest digest;
  index_t num_tokens = 0;
  for (const std::string& text : texts) {
    const Encoding encoding = tokenizer.encode(text);
    num_tokens += encoding.num_tokens();
    digest.add(text, encoding);
  }
  EXPECT_EQ(texts.size(), expected["num_texts"]);
  EXPECT_EQ(num_tokens, expected["num_tokens"]);
  EXPECT_EQ(digest.text(), expected["digest"].get<std::string>());
}

TEST_F(TokenizerMiniLm, CorporaEqualTheReference) {
  const auto data = data_folder();
  if (!data) GTEST_SKIP() << "the corpora are neither in $MULTIHEAD_DATA nor in ../shared/data";
  const Tokenizer as_it_is = load(document_, nlohmann::json::object());
  const Tokenizer cased = load(document_, kCased);
  for (const auto& corpus : read(folder() / "digests.json")["corpora"]) {
    SCOPED_TRACE(corpus["path"]);
    const auto texts = read_texts(*data / corpus["path"].get<std::string>());
    check_corpus(as_it_is, texts, corpus["as_it_is"]);
    check_corpus(cased, texts, corpus["cased"]);
  }
}

}  // namespace
}  // namespace multihead
