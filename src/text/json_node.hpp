// A value of a JSON file that knows where it stands, so that every error names the field and the file.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/file_error.hpp"
#include "core/require.hpp"

namespace multihead {

class JsonNode {
 public:
  /// Both must outlive the node. `where` names the value in error texts.
  JsonNode(const nlohmann::json& value, std::string where, const std::filesystem::path& file)
      : value_(&value), where_(std::move(where)), file_(&file) {}

  JsonNode at(const std::string& field) const;                   // must be there
  std::optional<JsonNode> find(const std::string& field) const;  // unset if absent or null

  bool is_text() const { return value_->is_string(); }
  bool is_object() const { return value_->is_object(); }
  bool is_null() const { return value_->is_null(); }
  std::string dump() const { return value_->dump(); }
  bool is_empty() const { return value_->empty(); }  // null, [] or {}

  // These throw CheckpointError if the value is of another kind.
  std::string text() const;
  bool boolean() const;
  index_t count() const;  // an integer from 0 to 2^31 - 1: ids, lengths
  std::vector<JsonNode> elements() const;
  std::vector<std::pair<std::string, JsonNode>> members() const;

  const std::string& where() const { return where_; }

  /// CheckpointError: Tokenizer::load: <where> <rule>, got name=value ("<file>").
  [[noreturn]] void fail(std::string_view rule, std::initializer_list<Got> got = {}) const;

  /// UnsupportedError for a value of this field that is not among `handled`, a list for people.
  [[noreturn]] void unsupported(std::string_view value, std::string_view handled) const;

 private:
  const nlohmann::json* value_;
  std::string where_;
  const std::filesystem::path* file_;
};

}  // namespace multihead
