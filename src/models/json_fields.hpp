// Typed fields of a JSON file, missing or of the wrong kind told in words.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "multihead/types.hpp"

namespace multihead {

/// An object out of a file. A field that is absent or null is unset. All throw CheckpointError for a value of the wrong
/// kind.
class JsonFields {
 public:
  /// @param function  in whose name errors are thrown
  JsonFields(const std::filesystem::path& path, std::string_view function);

  const std::filesystem::path& path() const { return path_; }

  /// A whole number in [least, 2^31).
  std::optional<index_t> integer(std::string_view key, index_t least = 0) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  /// The value itself, or null.
  const nlohmann::json* find(std::string_view key) const;

  /// The same, where the field must be there.
  index_t required_integer(std::string_view key, index_t least) const;

 private:
  std::filesystem::path path_;
  std::string function_;
  nlohmann::json object_;
};

}  // namespace multihead
