// The checked content of config.json of an encoder of the BERT family.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "multihead/nn/activation.hpp"
#include "multihead/types.hpp"

namespace multihead {

/// Sizes and settings of an encoder, under the same names for all model families.
struct EncoderConfig {
  std::string model_type;            ///< as in the file: "bert", "distilbert", "roberta", ..
  index_t d_model = 0;               ///< E
  index_t num_layers = 0;            ///< L
  index_t num_heads = 0;             ///< H before any removal; a layer may have fewer, see pruned_heads
  index_t head_dim = 0;              ///< D
  index_t hidden_features = 0;       ///< width inside the feed-forward network
  index_t vocab_size = 0;            ///< rows of the word embedding
  index_t max_positions = 0;         ///< rows of the position embedding
  index_t num_token_types = 0;       ///< rows of the token type embedding; 0 = there is no such embedding
  index_t pad_token_id = 0;          ///< the id used for padding
  bool positions_after_pad = false;  ///< RoBERTa: token i has position row pad_token_id + 1 + i, pad tokens not counted
  double norm_epsilon = 0;
  nn::Activation activation = nn::Activation::gelu;
  std::map<index_t, std::vector<index_t>> pruned_heads;  ///< by layer: original numbers of removed heads, ascending

  /// Number of tokens to truncate a text to: max_tokens(), or the limit of tokenizer_config.json if that is smaller.
  index_t max_text_tokens = 0;

  /// Number of tokens that have a position, hence the longest possible sequence.
  index_t max_tokens() const { return max_positions - (positions_after_pad ? pad_token_id + 1 : 0); }
};

/// Reads config.json of a folder, and tokenizer_config.json if there is one.
/// @throws CheckpointError   if config.json is missing, or one of the files is damaged or contradicts itself
/// @throws UnsupportedError  if it requires something that is not handled, which the text names: another model_type or
///                           activation, positions that are not absolute, a decoder
MULTIHEAD_API EncoderConfig load_encoder_config(const std::filesystem::path& folder);

}  // namespace multihead
