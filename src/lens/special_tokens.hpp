// The special tokens that a tokenizer puts around any text.
#pragma once

#include <algorithm>
#include <vector>

#include "multihead/tokenizer.hpp"

namespace multihead::lens {

struct SpecialTokens {
  std::vector<index_t> before, after;

  index_t count() const { return static_cast<index_t>(before.size() + after.size()); }
};

/// `probe` is any text with a token of its own: what stands before its first and after its last one.
inline SpecialTokens special_tokens(const Tokenizer& tokenizer, std::string_view probe) {
  const Encoding encoding = tokenizer.encode(probe);
  const auto& mask = encoding.special_tokens_mask;
  const auto first = std::ranges::find(mask, std::uint8_t{0}) - mask.begin();
  const auto last = std::find(mask.rbegin(), mask.rend(), std::uint8_t{0}).base() - mask.begin();
  return {.before = {encoding.ids.begin(), encoding.ids.begin() + first},
          .after = {encoding.ids.begin() + std::max(first, last), encoding.ids.end()}};
}

}  // namespace multihead::lens
