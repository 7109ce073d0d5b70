// A folder that holds the files of a model. Its JSON files are read once, whoever asks for them.
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
  /// @throws CheckpointError  in the name of `function`, saying what `path` is and what to give instead, if it is not a
  ///                          folder, or one of the hub's cache
  ModelFolder(const std::filesystem::path& path, std::string_view function);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(std::string_view name) const { return path_ / name; }
  bool holds(std::string_view name) const;

  /// A JSON file of the folder by its path inside, parsed at the first call; null where there is none. The pointer
  /// lives as long as the folder.
  /// @throws CheckpointError  as read_json
  const JsonFile* json(const std::string& name, std::string_view function) const;

  /// The same, where the file must be there and hold an object.
  const JsonFile* object(const std::string& name, std::string_view function) const;

 private:
  std::filesystem::path path_;
  mutable std::map<std::string, std::unique_ptr<const JsonFile>> files_;  // those that are there and were asked for
};

/// Whether there is something under this path; false where it cannot be seen.
bool is_there(const std::filesystem::path& path);

/// "a, b, c, ..": names of what the folder holds, for error texts.
std::string list_of_files(const std::filesystem::path& folder);

/// The folder must hold weights as safetensors; the error names what is there instead and what to do with it.
/// @throws CheckpointError  in the name of `function`
void require_weights(const std::filesystem::path& folder, std::string_view function);

}  // namespace multihead
