// UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <string>
#include <string_view>

#include "multihead/types.hpp"

namespace multihead {

struct Utf8Char {
  char32_t code = 0;
  index_t num_bytes = 0;  // 0 = no valid code point begins here
};

/// The code point that begins at text[position]; position < text.size().
Utf8Char read_utf8(std::string_view text, index_t position);

/// Where the first byte stands that begins no valid code point; text.size() if there is none.
index_t first_invalid_utf8(std::string_view text);

/// `code` must be a code point and no surrogate.
void append_utf8(std::string& text, char32_t code);

/// @throws Error  "function: text must be UTF-8, got byte=0xFF, position=3"
void require_utf8(std::string_view text, std::string_view function);

}  // namespace multihead
