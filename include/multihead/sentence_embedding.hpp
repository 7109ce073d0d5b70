// One vector per text: the pooled hidden states of its tokens.
#pragma once

#include <cstdint>
#include <filesystem>

#include "multihead/tensor.hpp"

namespace multihead {

enum class Pooling : std::uint8_t {
  mean,   ///< over the tokens of the sequence
  first,  ///< the first token, [CLS]
  max,    ///< of each feature over the tokens of the sequence
};

/// How a checkpoint computes one vector from hidden states.
struct SentencePooling {
  Pooling pooling = Pooling::mean;
  bool normalize = false;  ///< to Euclidean length 1 (a zero vector stays 0)
  index_t max_tokens = 0;  ///< limit to truncate texts to, special tokens included; 0 = that of the encoder
};

/// Reads modules.json, the files it names, sentence_bert_config.json and config_sentence_transformers.json. Without a
/// modules.json the result is the mean, not normalised.
/// @throws CheckpointError   if a file is damaged
/// @throws UnsupportedError  if a module or pooling mode is not handled; the text names it
MULTIHEAD_API SentencePooling load_sentence_pooling(const std::filesystem::path& folder);

/// @param hidden   [B, S, E]
/// @param lengths  [B] number of tokens that are not padding; absent = S
/// @return [B, E]; a sequence without tokens gives 0
/// @throws ShapeError  if shapes disagree or a length is not in [0, S]
MULTIHEAD_API Tensor<float, 2> pool(TensorView<const float, 3> hidden, TensorView<const index_t, 1> lengths,
                                    const SentencePooling& pooling);

}  // namespace multihead
