// Longest known beginning of a text.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "text/aligned_text.hpp"

namespace multihead {

/// A set of texts with a value each, walked code point by code point.
class Trie {
 public:
  /// A text that is there already gets the new value. An empty one is never found.
  void insert(AlignedSlice text, index_t value);

  struct Match {
    index_t num_chars = 0;  // 0 = nothing matched
    index_t value = 0;
  };

  /// Cost  one look-up for each code point of `text` up to the first that continues nothing.
  Match longest_prefix(AlignedSlice text) const;

 private:
  static constexpr index_t kNoValue = -1;
  static std::uint64_t edge(std::uint64_t node, char32_t code) { return node << 21 | code; }

  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // (node, code point) -> node
  std::vector<index_t> values_ = {kNoValue};                // of each node; the root is node 0
};

}  // namespace multihead
