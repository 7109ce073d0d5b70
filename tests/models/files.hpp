// Files for the tests of checkpoints: a folder that goes away, and safetensors files made by hand, valid or not.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

#include "tests/support/error_text.hpp"

namespace multihead {

using test::error_of;

/// A fresh folder, removed with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "multihead-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The 8 bytes that begin a safetensors file.
inline std::string length_prefix(std::uint64_t header_bytes) {
  std::string bytes;
  for (int byte = 0; byte < 8; ++byte) bytes += static_cast<char>(header_bytes >> (8 * byte) & 0xff);
  return bytes;
}

/// A file of this header and `data_bytes` bytes of data 0, 1, 2, ...
inline std::string safetensors_bytes(const std::string& header, int data_bytes) {
  std::string bytes = length_prefix(header.size()) + header;
  for (int i = 0; i < data_bytes; ++i) bytes += static_cast<char>(i);
  return bytes;
}

/// What `action` throws in a process that may write files of `most_bytes` at most.
template <class E>
inline std::string error_under_limit(rlim_t most_bytes, const std::function<void()>& action) {
  struct Limit {
    explicit Limit(rlim_t bytes) : handler(std::signal(SIGXFSZ, SIG_IGN)) {
      ::getrlimit(RLIMIT_FSIZE, &before);
      rlimit limit = before;
      limit.rlim_cur = bytes;
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~Limit() {
      ::setrlimit(RLIMIT_FSIZE, &before);
      std::signal(SIGXFSZ, handler);
    }
    void (*handler)(int);
    rlimit before{};
  } limit(most_bytes);
  return error_of<E>(action);
}

}  // namespace multihead
