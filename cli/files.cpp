#include "files.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "multihead/error.hpp"

namespace multihead::cli {
namespace {

[[noreturn]] void fail(std::string_view what, const std::string& path) {
  throw Error(fmt::format("cannot {} \"{}\": {}", what, path, std::strerror(errno)));
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

}  // namespace

std::string read_file(const std::string& path) {
  File owned;
  std::FILE* file = stdin;
  if (path != "-") {
    owned.reset(std::fopen(path.c_str(), "rb"));
    if (!owned) fail("read", path);
    file = owned.get();
  }
  std::string content;
  char buffer[1 << 16];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, file)) content.append(buffer, got);
  if (std::ferror(file)) fail("read", path);
  return content;
}

void check_writable(const std::string& path) {
  std::error_code ignored;
  const bool existed = std::filesystem::exists(path, ignored);
  if (!File(std::fopen(path.c_str(), "ab"))) fail("write", path);
  if (!existed) std::filesystem::remove(path, ignored);
}

void write_file(const std::string& path, std::string_view content) {
  File file(std::fopen(path.c_str(), "wb"));
  if (!file || std::fwrite(content.data(), 1, content.size(), file.get()) != content.size()) fail("write", path);
  if (std::fclose(file.release()) != 0) fail("write", path);
}

std::filesystem::path cached_model(std::string_view name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const auto base =
      cache && *cache ? std::filesystem::path(cache) : std::filesystem::path(home ? home : ".") / ".cache";
  return base / "multihead" / "models" / name;
}

}  // namespace multihead::cli
