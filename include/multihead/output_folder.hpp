// A folder that appears under its name complete, or not at all.
//
//   OutputFolder folder("smaller");            where it leads is checked; nothing is created or changed
//   folder.write("config.json", text);         into a hidden folder beside it
//   folder.copy("1_Pooling/config.json", from);
//   folder.finish();                           renamed to "smaller"
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "multihead/output_file.hpp"

namespace multihead {

/// The name must be free, or that of an empty folder, whose permissions are kept. Not for use by several threads at
/// once.
class MULTIHEAD_API OutputFolder {
 public:
  /// Nothing is created or changed before the first write().
  /// @throws WriteError  if there is a file or a folder that is not empty, if the name is that of the folder in which
  ///                     the process works, or if the folder around it is missing or may not be written to
  explicit OutputFolder(const std::filesystem::path& path);
  /// Unless finish() has returned, all that was written is removed.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// `fill` writes the content of a new file, which reaches the disk before write() returns.
  /// @param name  inside the folder; folders before it are made: "1_Pooling/config.json"
  /// @throws WriteError  naming the file under the folder's own name; also if it was written before
  void write(const std::filesystem::path& name, const std::function<void(OutputFile&)>& fill);
  void write(const std::filesystem::path& name, std::string_view content);
  /// A copy of a file. @throws WriteError, CheckpointError  the latter if `from` cannot be read
  void copy(const std::filesystem::path& name, const std::filesystem::path& from);

  /// @throws WriteError  if the folder cannot be renamed
  void finish();

 private:
  void open();

  std::filesystem::path path_, target_, temporary_;  // target_: links resolved
  std::optional<mode_t> mode_;                       // of the folder that is replaced
  bool opened_ = false, complete_ = false;
};

}  // namespace multihead
