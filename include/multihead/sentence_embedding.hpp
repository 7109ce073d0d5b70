// One vector for a text: the pooled hidden states of its tokens.
#pragma once

#include <cstdint>
#include <filesystem>

#include "multihead/tensor.hpp"

namespace multihead {

enum class Pooling : std::uint8_t {
  mean,   ///< over the tokens of the sequence
  first,  ///< the first token, [CLS]
  max,    ///< over the tokens, each feature by itself
};

/// How a checkpoint makes a vector of hidden states.
struct SentencePooling {
  Pooling pooling = Pooling::mean;
  bool normalize = false;  ///< to length 1 (a vector of zeros stays)
  index_t max_tokens = 0;  ///< longer texts are cut to this many tokens, added ones included; 0 = as the encoder takes
};

/// Reads modules.json, what it names, sentence_bert_config.json and config_sentence_transformers.json. A folder without
/// modules.json gives the mean, not normalised.
/// @throws CheckpointError   if a file is damaged
/// @throws UnsupportedError  if a module or a way of pooling is not handled; the text names it
MULTIHEAD_API SentencePooling load_sentence_pooling(const std::filesystem::path& folder);

/// @param hidden   [B, S, E]
/// @param lengths  [B] tokens that count; absent = S
/// @return [B, E]; a sequence without tokens gives 0
/// @throws ShapeError  if shapes disagree or a length is not in [0, S]
MULTIHEAD_API Tensor<float, 2> pool(TensorView<const float, 3> hidden, TensorView<const index_t, 1> lengths,
                                    const SentencePooling& pooling);

}  // namespace multihead
