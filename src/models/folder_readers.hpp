// The loaders of the parts of a model, for a folder that is opened once.
#pragma once

#include "io/model_folder.hpp"
#include "multihead/encoder.hpp"
#include "multihead/sentence_embedding.hpp"

namespace multihead {

EncoderConfig read_encoder_config(const ModelFolder& folder);
Encoder read_encoder(const ModelFolder& folder, const EncoderConfig& config);
SentencePooling read_sentence_pooling(const ModelFolder& folder);

}  // namespace multihead
