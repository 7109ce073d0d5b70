// A batch of token ids without padding: all sequences one after the other.
#pragma once

#include "multihead/encoder.hpp"

namespace multihead {

/// The constructor checks all ids, types, positions and lengths against the sizes of the embeddings and the batch.
struct PackedInput {
  Tensor<index_t, 1> token_ids, token_types, positions;  ///< [tokens]
  Tensor<index_t, 1> offsets;                            ///< [B + 1]; sequence b is tokens [offsets[b], offsets[b+1])

  /// @throws ShapeError  in the name of `function`
  PackedInput(const EncoderInput& input, const EncoderConfig& config, const char* function);

  index_t batch() const { return offsets.size() - 1; }
  index_t num_tokens() const { return token_ids.size(); }
  index_t begin(index_t b) const { return offsets(b); }
  index_t length(index_t b) const { return offsets(b + 1) - offsets(b); }
  index_t longest() const;
};

}  // namespace multihead
