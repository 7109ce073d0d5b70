// Typed access to the fields of a JSON file, with errors for missing fields and wrong types.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "io/model_folder.hpp"
#include "multihead/types.hpp"

namespace multihead {

/// An object in a JSON file. A field that is absent or null is unset. All functions throw CheckpointError for a value
/// of the wrong type.
class JsonFields {
 public:
  /// @param file      must outlive the fields
  /// @param function  the function name in error texts
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

  /// The same for a field that must exist.
  index_t required_integer(std::string_view key, index_t least) const;

 private:
  const JsonFile& file_;
  std::string function_;
};

}  // namespace multihead
