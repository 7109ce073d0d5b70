#include "multihead/train/text_lines.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/file_error.hpp"
#include "text/utf8.hpp"

namespace multihead::train {
namespace {

constexpr auto kFunction = "read_text";

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::string hex_byte(char c) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  return {'0', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

void require_utf8_line(std::string_view line, index_t number, const std::string& name) {
  const index_t position = first_invalid_utf8(line);
  if (position == static_cast<index_t>(line.size())) return;
  const std::string byte = hex_byte(line[static_cast<std::size_t>(position)]);
  require_file(false, name, kFunction, "a text must be UTF-8",
               {{"line", number}, {"byte", byte}, {"position", position}});
}

}  // namespace

TextLines TextLines::read(const std::filesystem::path& path) {
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  std::string content;
  char buffer[1 << 16];
  while (file) {
    const std::size_t got = std::fread(buffer, 1, sizeof buffer, file.get());
    if (got == 0) break;
    content.append(buffer, got);
  }
  if (!file || std::ferror(file.get())) {
    require_file(false, path, kFunction, "the file must be readable", {{"reason", std::strerror(errno)}});
  }
  return {std::move(content), path.string()};
}

TextLines::TextLines(std::string content, std::string name) {
  const auto text = std::make_shared<Text>(Text{.content = std::move(content), .name = std::move(name), .lines = {}});
  const std::string_view all = text->content;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\n', begin), all.size());
    text->lines.push_back(all.substr(begin, end - begin));
    require_utf8_line(text->lines.back(), static_cast<index_t>(text->lines.size()), text->name);
    begin = end + 1;
  }
  text_ = text;
}

void require_same_lines(std::string_view function, const TextLines& source, const TextLines& target) {
  require(source.size() == target.size(), function, "source and target must have the same number of lines",
          {{"source_lines", source.size()},
           {"target_lines", target.size()},
           {"source", quote(source.name())},
           {"target", quote(target.name())}});
}

}  // namespace multihead::train
