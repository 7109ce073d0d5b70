#include "text/trie.hpp"

namespace multihead {

void Trie::insert(AlignedSlice text, index_t value) {
  std::uint32_t node = 0;
  for (const AlignedChar& c : text) {
    const auto [it, is_new] = edges_.try_emplace(edge(node, c.code), static_cast<std::uint32_t>(values_.size()));
    if (is_new) values_.push_back(kNoValue);
    node = it->second;
  }
  values_[node] = value;
}

Trie::Match Trie::longest_prefix(AlignedSlice text) const {
  Match match;
  std::uint32_t node = 0;
  index_t num_chars = 0;
  for (const AlignedChar& c : text) {
    const auto it = edges_.find(edge(node, c.code));
    if (it == edges_.end()) break;
    node = it->second;
    ++num_chars;
    if (values_[node] != kNoValue) match = {num_chars, values_[node]};
  }
  return match;
}

}  // namespace multihead
