// The names that each family of encoders uses in its files, as a table.
#pragma once

#include <span>
#include <string_view>

namespace multihead {

/// Keys of config.json; empty if the family has no such key.
struct ConfigNames {
  std::string_view d_model, num_layers, num_heads, hidden_features, activation, norm_epsilon, num_token_types;
};

/// Names of tensors without prefix, and without ".weight" and ".bias". "#" is replaced by the number of the layer.
struct TensorNames {
  std::string_view word, position, token_type, embedding_norm;
  std::string_view query, key, value, attention_out, attention_norm;
  std::string_view up, down, feed_forward_norm;
};

struct NamingScheme {
  std::span<const std::string_view> model_types;  ///< values of "model_type" in config.json
  std::span<const std::string_view> prefixes;     ///< prefixes that all names may have
  ConfigNames config;
  TensorNames tensors;
  bool positions_after_pad;  ///< see EncoderConfig
};

/// All schemes, one per family.
std::span<const NamingScheme> naming_schemes();

/// The scheme of a model_type, or null.
const NamingScheme* find_naming_scheme(std::string_view model_type);

}  // namespace multihead
