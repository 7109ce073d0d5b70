#include "text/utf8.hpp"

#include "core/require.hpp"

namespace multihead {
namespace {

std::string hex_byte(char c) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  return {'0', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

// Payload bits of a first byte, how many bytes follow it, and the least code point that needs so many.
struct Lead {
  char32_t payload;
  index_t num_following;
  char32_t least;
};

Lead classify(unsigned char byte) {
  if (byte < 0x80) return {byte, 0, 0};
  if ((byte & 0xE0) == 0xC0) return {byte & 0x1Fu, 1, 0x80};
  if ((byte & 0xF0) == 0xE0) return {byte & 0x0Fu, 2, 0x800};
  if ((byte & 0xF8) == 0xF0) return {byte & 0x07u, 3, 0x10000};
  return {0, -1, 0};
}

}  // namespace

Utf8Char read_utf8(std::string_view text, index_t position) {
  const auto num_left = static_cast<index_t>(text.size()) - position;
  const Lead lead = classify(static_cast<unsigned char>(text[position]));
  if (lead.num_following < 0 || lead.num_following >= num_left) return {};
  char32_t code = lead.payload;
  for (index_t k = 1; k <= lead.num_following; ++k) {
    const auto byte = static_cast<unsigned char>(text[position + k]);
    if ((byte & 0xC0) != 0x80) return {};
    code = code << 6 | (byte & 0x3Fu);
  }
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < lead.least || code > 0x10FFFF || surrogate) return {};
  return {code, lead.num_following + 1};
}

index_t first_invalid_utf8(std::string_view text) {
  index_t position = 0;
  while (position < static_cast<index_t>(text.size())) {
    const index_t num_bytes = read_utf8(text, position).num_bytes;
    if (num_bytes == 0) break;
    position += num_bytes;
  }
  return position;
}

void append_utf8(std::string& text, char32_t code) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

void require_utf8(std::string_view text, std::string_view function) {
  const index_t position = first_invalid_utf8(text);
  if (position == static_cast<index_t>(text.size())) return;
  throw Error(error_text(function, "text must be UTF-8", {{"byte", hex_byte(text[position])}, {"position", position}}));
}

}  // namespace multihead
