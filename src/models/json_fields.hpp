// Typed fields of a JSON file, missing or of the wrong kind told in words.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "io/model_folder.hpp"
#include "multihead/types.hpp"

namespace multihead {

/// An object out of a file. A field that is absent or null is unset. All throw CheckpointError for a value of the wrong
/// kind.
class JsonFields {
 public:
  /// @param file      must outlive the fields
  /// @param function  in whose name errors are thrown
  JsonFields(const JsonFile& file, std::string_view function);

  const std::filesystem::path& path() const { return file_.path; }
  const nlohmann::json& object() const { return file_.content; }

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
  const JsonFile& file_;
  std::string function_;
};

}  // namespace multihead
