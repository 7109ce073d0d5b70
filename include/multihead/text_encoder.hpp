// A model folder as a whole: text -> token ids -> hidden states -> one vector per text.
//
//   const TextEncoder model = load_text_encoder(folder);
//   const Encoding text = model.encode("The cat sat.");
//   const TokenBatch batch = pad_batch({&text.ids, 1});
//   const EncoderOutput output = model.encoder.forward(batch.input());
//   const Tensor<float, 2> vector = pool(output.last_hidden, batch.lengths, model.pooling);
#pragma once

#include <filesystem>
#include <string_view>

#include "multihead/encoder.hpp"
#include "multihead/sentence_embedding.hpp"
#include "multihead/tokenizer.hpp"

namespace multihead {

struct MULTIHEAD_API TextEncoder {
  Tokenizer tokenizer;
  Encoder encoder;
  SentencePooling pooling;
  EncodeOptions cut;  ///< to how many tokens, and at which end, the files say to truncate long texts

  /// The tokens for `encoder`: truncated, and with type_ids 0 if the model takes none.
  /// @throws as Tokenizer::encode
  Encoding encode(std::string_view text) const;
  Encoding encode_pair(std::string_view text, std::string_view pair) const;
};

struct TextEncoderOptions {
  /// Whether to read the files of sentence-transformers. If not, `pooling` is the mean, texts may be as long as the
  /// encoder and the tokenizer allow, and modules that are not supported do not matter.
  bool sentence_vectors = true;
};

/// Combines Tokenizer::load, load_encoder and load_sentence_pooling of one folder and reads each JSON file once.
/// @throws as these three
/// Cost  copies the weights and checks each of them once.
MULTIHEAD_API TextEncoder load_text_encoder(const std::filesystem::path& folder,
                                            const TextEncoderOptions& options = {});

}  // namespace multihead
