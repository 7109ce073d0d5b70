#include "text/pre_tokenizer.hpp"

#include "text/unicode.hpp"

namespace multihead {
namespace {

enum class CharRole : std::uint8_t {
  inside,     // of a word, with its neighbours that are inside
  symbol,     // of a run of symbols, with its neighbours that are symbols
  alone,      // a word by itself
  separator,  // in no word
};

using RoleOf = CharRole (*)(char32_t);

// Most pre-tokenizers are a role for each character.
class RolePreTokenizer final : public PreTokenizer {
 public:
  explicit RolePreTokenizer(RoleOf role_of) : role_of_(role_of) {}

  std::vector<AlignedSlice> split(AlignedSlice text) const override {
    std::vector<AlignedSlice> parts;
    std::size_t begin = 0;
    CharRole open = CharRole::separator;  // of the part that began at `begin`
    const auto close = [&](std::size_t end) {
      if (open != CharRole::separator) parts.push_back(text.subspan(begin, end - begin));
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
      const CharRole role = role_of_(text[i].code);
      if (role == open && role != CharRole::alone) continue;
      close(i);
      begin = i;
      open = role;
    }
    close(text.size());
    return parts;
  }

 private:
  RoleOf role_of_;
};

CharRole bert_role(char32_t c) {
  if (is_whitespace(c)) return CharRole::separator;
  return is_punctuation(c) ? CharRole::alone : CharRole::inside;
}

// \w+|[^\w\s]+
CharRole word_or_symbols_role(char32_t c) {
  if (is_word(c)) return CharRole::inside;
  return is_whitespace(c) ? CharRole::separator : CharRole::symbol;
}

CharRole whitespace_role(char32_t c) { return is_whitespace(c) ? CharRole::separator : CharRole::inside; }

CharRole punctuation_role(char32_t c) { return is_punctuation(c) ? CharRole::alone : CharRole::inside; }

class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(const JsonNode& node) {
    for (const JsonNode& element : node.at("pretokenizers").elements()) steps_.push_back(make_pre_tokenizer(element));
  }

  std::vector<AlignedSlice> split(AlignedSlice text) const override {
    std::vector<AlignedSlice> parts = {text};
    for (const auto& step : steps_) {
      std::vector<AlignedSlice> finer;
      for (const AlignedSlice part : parts) {
        const auto split_part = step->split(part);
        finer.insert(finer.end(), split_part.begin(), split_part.end());
      }
      parts = std::move(finer);
    }
    return parts;
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> steps_;
};

}  // namespace

std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const JsonNode& node) {
  const std::string type = node.at("type").text();
  if (type == "BertPreTokenizer") return std::make_unique<RolePreTokenizer>(bert_role);
  if (type == "Whitespace") return std::make_unique<RolePreTokenizer>(word_or_symbols_role);
  if (type == "WhitespaceSplit") return std::make_unique<RolePreTokenizer>(whitespace_role);
  if (type == "Punctuation") {
    const auto behavior = node.find("behavior");
    if (behavior && behavior->text() != "Isolated") behavior->unsupported(behavior->text(), "Isolated");
    return std::make_unique<RolePreTokenizer>(punctuation_role);
  }
  if (type == "Sequence") return std::make_unique<PreTokenizerSequence>(node);
  node.unsupported(type, "BertPreTokenizer, Punctuation, Sequence, Whitespace, WhitespaceSplit");
}

}  // namespace multihead
