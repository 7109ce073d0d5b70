// The bytes of a file, mapped into memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace multihead {

/// A regular file, mapped read-only during the lifetime of the object.
class MappedFile {
 public:
  /// @throws CheckpointError  in the name of `function`, if the file cannot be opened or is not a regular file
  MappedFile(const std::filesystem::path& path, std::string_view function);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace multihead
