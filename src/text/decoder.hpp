// Decoders: tokens back to a text for people.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/json_node.hpp"

namespace multihead {

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual std::string decode(const std::vector<std::string>& tokens) const = 0;
};

/// From the value of "decoder"; null: tokens with spaces between.
std::unique_ptr<const Decoder> make_decoder(const std::optional<JsonNode>& node);

}  // namespace multihead
