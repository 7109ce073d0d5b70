// A text as code points, each with the bytes of the original that it stands for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "multihead/tokenizer.hpp"

namespace multihead {

/// One code point of a normalized text. Several may stand for the same bytes ("é" as e and an accent), and some bytes
/// may have lost theirs (a control character).
struct AlignedChar {
  index_t begin = 0;            // first byte in the original
  std::uint32_t num_bytes = 0;  // of the one original character it came from
  char32_t code = 0;
};

using AlignedText = std::vector<AlignedChar>;
using AlignedSlice = std::span<const AlignedChar>;

/// Code points of `utf8`, each standing for its own bytes.
/// @throws Error  if it is not UTF-8; the text begins with `function`
AlignedText aligned(std::string_view utf8, std::string_view function);

std::string to_utf8(AlignedSlice text);

/// Bytes of the original from the first to the last code point; `text` must not be empty.
TextSpan original_span(AlignedSlice text);

}  // namespace multihead
