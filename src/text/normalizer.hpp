// Normalizers: what happens to the characters before words are found.
#pragma once

#include <memory>

#include "text/aligned_text.hpp"
#include "text/json_node.hpp"

namespace multihead {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

/// From the value of "normalizer".
std::unique_ptr<const Normalizer> make_normalizer(const JsonNode& node);

}  // namespace multihead
