// Writes a file that appears under its name only when it is complete.
//
//   OutputFile file("weights.bin");   checks that the file can be written; creates and changes nothing
//   file.write(bytes);                writes to a temporary file in the same folder
//   file.finish();                    flushes it to the disk, then renames it to "weights.bin"
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

/// A file that cannot be written: the disk is full, a folder is missing, permission is denied, ...
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

/// Links are followed, even if the file they name does not exist yet. An existing file is unchanged until finish()
/// replaces it, and its permissions are kept; other hard links to it keep the old content, since the new file takes the
/// name, not the place on the disk. Pipes, devices and open descriptors ("/dev/stdout", "/dev/fd/3") are
/// written to directly. An OutputFile must not be used by several threads at once.
class MULTIHEAD_API OutputFile {
 public:
  /// Nothing is created or changed before the first write().
  /// @throws WriteError  if the file could not be written: its folder is missing, it is a folder, permission is denied
  explicit OutputFile(const std::filesystem::path& path);
  /// Writes to an open descriptor and does not close it. `name` is used in error texts.
  OutputFile(int descriptor, std::filesystem::path name);
  /// Removes the temporary file unless finish() has returned; an existing file of this name is then left unchanged.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Appends all bytes; blocks while a pipe is full.
  /// @throws WriteError
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// @throws WriteError  if the data cannot be flushed to the disk or the file cannot be renamed
  void finish();

  /// Path of the temporary file, known from the start; empty if the file is written to directly.
  const std::filesystem::path& temporary() const { return temporary_; }
  /// The descriptor that is written to, if one was given or the path names one ("/dev/stdout" is 1).
  std::optional<int> descriptor() const { return given_; }
  /// Whether `other` leads to the same file or pipe, even if that does not exist yet. Always false for devices.
  bool is_same(const std::filesystem::path& other) const;

 private:
  void open();
  [[noreturn]] void fail(int error_number) const;

  std::filesystem::path path_, target_, temporary_;  // target_: links resolved
  std::optional<mode_t> mode_;                       // of an existing file
  uid_t owner_ = 0;
  gid_t group_ = 0;
  std::optional<int> given_;
  int descriptor_ = -1;
  bool complete_ = false;
};

}  // namespace multihead
