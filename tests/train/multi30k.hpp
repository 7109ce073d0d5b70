// The Multi30k corpus of English and German captions, where it is on this machine.
#pragma once

#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "multihead/train/text_lines.hpp"

namespace multihead::test {

/// The lines of "train.de" and the like; unset where the corpus is neither in $MULTIHEAD_DATA nor in ../shared/data.
inline std::optional<train::TextLines> multi30k(const std::string& name) {
  const char* given = std::getenv("MULTIHEAD_DATA");
  const std::filesystem::path data =
      given && *given ? given : std::filesystem::path(MULTIHEAD_SOURCE_DIR).parent_path() / "shared" / "data";
  const std::filesystem::path path = data / "multi30k" / (name + ".gz");
  if (!std::filesystem::exists(path)) return std::nullopt;
  std::string text;
  char buffer[1 << 16];
  gzFile file = gzopen(path.c_str(), "rb");
  for (int got; (got = gzread(file, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(got));
  gzclose(file);
  return train::TextLines(std::move(text), name);
}

}  // namespace multihead::test
