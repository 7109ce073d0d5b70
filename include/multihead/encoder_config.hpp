// What config.json says about an encoder of the BERT family, checked.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "multihead/nn/activation.hpp"
#include "multihead/types.hpp"

namespace multihead {

/// Sizes and switches of an encoder, by one set of names whatever the family calls them.
struct EncoderConfig {
  std::string model_type;            ///< as in the file: "bert", "distilbert", "roberta", ..
  index_t d_model = 0;               ///< E
  index_t num_layers = 0;            ///< L
  index_t num_heads = 0;             ///< H, as designed: single layers may have fewer, see pruned_heads
  index_t head_dim = 0;              ///< D
  index_t hidden_features = 0;       ///< width inside the feed-forward network
  index_t vocab_size = 0;            ///< rows of the word embedding
  index_t max_positions = 0;         ///< rows of the position embedding
  index_t num_token_types = 0;       ///< rows of the token type embedding; 0 = there is none
  index_t pad_token_id = 0;          ///< the id that fills up batches
  bool positions_after_pad = false;  ///< RoBERTa: token i stands at row pad_token_id + 1 + i, pad tokens not counted
  double norm_epsilon = 0;
  nn::Activation activation = nn::Activation::gelu;
  std::map<index_t, std::vector<index_t>> pruned_heads;  ///< by layer: heads removed, numbered as designed, ascending

  /// Tokens that a text should be cut to: max_tokens(), or what tokenizer_config.json asks for if that is less.
  index_t max_text_tokens = 0;

  /// Tokens that have a position.
  index_t max_tokens() const { return max_positions - (positions_after_pad ? pad_token_id + 1 : 0); }
};

/// Reads config.json of a folder, and tokenizer_config.json where there is one.
/// @throws CheckpointError   if it is missing or damaged, or its numbers contradict each other
/// @throws UnsupportedError  if it asks for something not handled, which the text names: another model_type, another
///                           activation, positions that are not absolute, a decoder
MULTIHEAD_API EncoderConfig load_encoder_config(const std::filesystem::path& folder);

}  // namespace multihead
