// Pre-tokenizers: where words begin and end in a normalized text.
#pragma once

#include <memory>

#include "text/aligned_text.hpp"
#include "text/json_node.hpp"

namespace multihead {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  /// Parts of `text` in order, none of them empty. What is in no part is dropped.
  virtual std::vector<AlignedSlice> split(AlignedSlice text) const = 0;
};

/// From the value of "pre_tokenizer".
std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const JsonNode& node);

}  // namespace multihead
