// A folder that holds the files of a model. Each of its JSON files is read once, however often it is used.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace multihead {

struct JsonFile {
  std::filesystem::path path;
  nlohmann::json content;
};

class ModelFolder {
 public:
  /// @throws CheckpointError  in the name of `function`, if it is not a folder, or is one of the Hugging Face cache;
  /// the
  ///                          text says what `path` is and what to give instead
  ModelFolder(const std::filesystem::path& path, std::string_view function);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(std::string_view name) const { return path_ / name; }
  bool holds(std::string_view name) const;

  /// A JSON file by its path inside the folder, parsed at the first call; null if there is none. The pointer is valid
  /// during the lifetime of this object.
  /// @throws CheckpointError  as read_json
  const JsonFile* json(const std::string& name, std::string_view function) const;

  /// The same for a file that must exist and contain an object.
  const JsonFile* object(const std::string& name, std::string_view function) const;

 private:
  std::filesystem::path path_;
  mutable std::map<std::string, std::unique_ptr<const JsonFile>> files_;  // those that exist and were used
};

/// Whether the path exists; false if that cannot be found out.
bool is_there(const std::filesystem::path& path);

/// "a, b, c, ..": names of the entries of the folder, for error texts.
std::string list_of_files(const std::filesystem::path& folder);

/// Checks that the folder has weights as safetensors. The error names what it has instead, and what to do about it.
/// @throws CheckpointError  in the name of `function`
void require_weights(const std::filesystem::path& folder, std::string_view function);

}  // namespace multihead
