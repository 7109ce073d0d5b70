// Reads the goldens of tests/golden/tokenizer and compares encodings with them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "models/files.hpp"
#include "multihead/tokenizer.hpp"

namespace multihead::tokenizer_golden {

inline std::filesystem::path folder() {
  return std::filesystem::path(MULTIHEAD_SOURCE_DIR) / "tests" / "golden" / "tokenizer";
}

inline nlohmann::json read(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return nlohmann::json::parse(stream);
}

/// MiniLM's tokenizer.json where scripts/get-model puts it; unset if it is not there.
inline std::optional<std::filesystem::path> minilm_file() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base = cache && *cache ? cache : std::filesystem::path(home ? home : "") / ".cache";
  const auto file = base / "multihead" / "models" / "minilm" / "tokenizer.json";
  return std::filesystem::exists(file) ? std::optional(file) : std::nullopt;
}

inline Tokenizer load(nlohmann::json document, const nlohmann::json& patch) {
  document.merge_patch(patch);
  const TemporaryFolder temporary;
  return Tokenizer::load(temporary.write("tokenizer.json", document.dump()));
}

inline nlohmann::json spans(const std::vector<TextSpan>& offsets) {
  nlohmann::json result = nlohmann::json::array();
  for (const TextSpan& span : offsets) result.push_back({span.begin, span.end});
  return result;
}

inline nlohmann::json optionals(const std::vector<std::optional<index_t>>& values) {
  nlohmann::json result = nlohmann::json::array();
  for (const auto& value : values) result.push_back(value ? nlohmann::json(*value) : nlohmann::json());
  return result;
}

/// A case of the goldens: [text, ids, tokens, offsets, word_ids, special_tokens_mask, type_ids].
inline nlohmann::json as_case(const std::string& text, const Encoding& e) {
  return {text,
          e.ids,
          e.tokens,
          spans(code_point_offsets(text, e.offsets)),
          optionals(e.word_ids),
          e.special_tokens_mask,
          e.type_ids};
}

/// Every group of a file of cases; `document` is the tokenizer.json that the groups patch. Counts the cases.
inline index_t check_groups(const nlohmann::json& document, const nlohmann::json& groups) {
  index_t num_cases = 0;
  for (const auto& group : groups) {
    const Tokenizer tokenizer = load(document, group["patch"]);
    for (const auto& expected : group["cases"]) {
      const auto text = expected[0].get<std::string>();
      const Encoding encoding = tokenizer.encode(text, {.add_special_tokens = group["add_special_tokens"]});
      EXPECT_EQ(as_case(text, encoding), expected) << "group: " << group["name"];
      ++num_cases;
    }
  }
  return num_cases;
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits, over 32-bit words instead of bytes; as in make_tokenizer_goldens.py.
class Digest {
 public:
  void add(std::uint32_t word) { value_ = (value_ ^ word) * 0x100000001B3; }

  void add(std::string_view text, const Encoding& e) {
    add(static_cast<std::uint32_t>(e.ids.size()));
    const auto offsets = code_point_offsets(text, e.offsets);
    for (std::size_t t = 0; t < e.ids.size(); ++t) {
      const index_t word = e.word_ids[t] ? *e.word_ids[t] + 1 : 0;
      for (const index_t value : {e.ids[t], offsets[t].begin, offsets[t].end, word}) {
        add(static_cast<std::uint32_t>(value));
      }
    }
  }

  std::string text() const {
    char buffer[17];
    std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(value_));
    return buffer;
  }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325;
};

}  // namespace multihead::tokenizer_golden
