// A file that appears under its name complete, or not at all.
//
//   OutputFile file("weights.bin");   where it leads is found out; nothing is created or changed
//   file.write(bytes);                into a temporary file in the same folder
//   file.finish();                    flushed to the disk, then renamed over "weights.bin"
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "multihead/error.hpp"

namespace multihead {

/// A file that cannot be written: the disk is full, a folder is missing, permission is denied ..
class MULTIHEAD_API WriteError : public Error {
 public:
  WriteError(std::filesystem::path path, int error_number);

  const std::filesystem::path& path() const { return path_; }
  /// "No space left on device"
  const std::string& reason() const { return reason_; }

 private:
  std::filesystem::path path_;
  std::string reason_;
};

/// Links are followed, dangling ones to the file that they name. An existing file keeps its bytes until finish(), and
/// its permissions after it. Pipes, devices and open descriptors ("/dev/stdout", "/dev/fd/3") are written to as they
/// are. Not for use by several threads at once.
class MULTIHEAD_API OutputFile {
 public:
  /// Nothing is created or changed before the first write().
  /// @throws WriteError  if the file could not be written: its folder is missing, it is a folder, permission is denied
  explicit OutputFile(const std::filesystem::path& path);
  /// A descriptor that is open and stays open; `name` is what errors call it.
  OutputFile(int descriptor, std::filesystem::path name);
  /// Unless finish() has returned, the temporary file is removed and what stood under the name still does.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes all bytes after those written before; blocks while a pipe is full.
  /// @throws WriteError
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// @throws WriteError  if the bytes do not reach the disk or the file cannot be renamed
  void finish();

  /// Where the bytes stand until finish(); known from the start. Empty where they are written directly.
  const std::filesystem::path& temporary() const { return temporary_; }
  /// The descriptor that is written to where the path names one ("/dev/stdout" is 1).
  std::optional<int> descriptor() const { return given_; }
  /// Whether `other` names the same file or pipe, by whatever path or link, existing or not yet. Devices never are.
  bool is_same(const std::filesystem::path& other) const;

 private:
  void open();
  [[noreturn]] void fail(int error_number) const;

  std::filesystem::path path_, target_, temporary_;  // target_: links resolved
  std::optional<mode_t> mode_;                       // of the file that is replaced
  uid_t owner_ = 0;
  gid_t group_ = 0;
  std::optional<int> given_;
  int descriptor_ = -1;
  bool complete_ = false;
};

}  // namespace multihead
