#include "text/aligned_text.hpp"

#include "text/utf8.hpp"

namespace multihead {

AlignedText aligned(std::string_view utf8, std::string_view function) {
  require_utf8(utf8, function);
  AlignedText text;
  text.reserve(utf8.size());
  for (index_t position = 0; position < static_cast<index_t>(utf8.size());) {
    const Utf8Char c = read_utf8(utf8, position);
    text.push_back({position, static_cast<std::uint32_t>(c.num_bytes), c.code});
    position += c.num_bytes;
  }
  return text;
}

std::string to_utf8(AlignedSlice text) {
  std::string utf8;
  for (const AlignedChar& c : text) append_utf8(utf8, c.code);
  return utf8;
}

TextSpan original_span(AlignedSlice text) { return {text.front().begin, text.back().begin + text.back().num_bytes}; }

}  // namespace multihead
