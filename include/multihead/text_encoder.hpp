// A model folder as a whole: texts to token ids, to hidden states, to one vector per text.
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
  EncodeOptions cut;  ///< where, and at which end, the files of the folder want long texts cut

  /// The tokens that the model reads: cut, and with type_ids 0 where the model is not given any.
  /// @throws as Tokenizer::encode
  Encoding encode(std::string_view text) const;
  Encoding encode_pair(std::string_view text, std::string_view pair) const;
};

struct TextEncoderOptions {
  /// Whether the files of sentence-transformers count. Without them `pooling` is the plain mean, texts may be as long
  /// as the encoder and the tokenizer allow, and modules that are not handled are no hindrance.
  bool sentence_vectors = true;
};

/// Tokenizer::load, load_encoder and load_sentence_pooling of one folder, of which each JSON file is read once.
/// @throws as these three
/// Cost  a copy of the weights, each of which is looked at once.
MULTIHEAD_API TextEncoder load_text_encoder(const std::filesystem::path& folder, const TextEncoderOptions& options = {});

}  // namespace multihead
