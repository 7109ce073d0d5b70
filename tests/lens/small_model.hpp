// A tokenizer of a few words and an encoder of random weights, for tests that need a whole model.
#pragma once

#include "models/files.hpp"
#include "multihead/encoder.hpp"
#include "multihead/tokenizer.hpp"
#include "support/random.hpp"

namespace multihead::lens {

/// A BERT tokenizer of these words, after [PAD] [UNK] [CLS] [SEP] [MASK], whose ids are 0 .. 4.
inline Tokenizer small_tokenizer(std::string_view words) {
  const TemporaryFolder folder;
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const char c : words) vocabulary += c == ' ' ? '\n' : c;
  folder.write("vocab.txt", vocabulary + "\n");
  folder.write("tokenizer_config.json", R"({"do_lower_case": true})");
  return Tokenizer::load(folder.path());
}

/// "w0 w1 .. w<count - 1>"
inline std::string numbered_words(index_t count) {
  std::string words;
  for (index_t n = 0; n < count; ++n) words += (n > 0 ? " w" : "w") + std::to_string(n);
  return words;
}

/// Every parameter is uniform in [-1, 1), norm weights included.
inline Encoder small_encoder(index_t vocab_size, index_t num_layers = 2, index_t num_heads = 2,
                             std::uint64_t seed = 1) {
  const EncoderConfig config{.model_type = "bert",
                             .d_model = 4 * num_heads,
                             .num_layers = num_layers,
                             .num_heads = num_heads,
                             .head_dim = 4,
                             .hidden_features = 8,
                             .vocab_size = vocab_size,
                             .max_positions = 64,
                             .num_token_types = 2,
                             .norm_epsilon = 1e-6,
                             .pruned_heads = {},
                             .max_text_tokens = 64};
  nn::RemainingHeads heads;
  for (index_t h = 0; h < num_heads; ++h) {
    heads.original_heads.push_back(h);
    heads.original_kv_heads.push_back(h);
    heads.kv_head_of.push_back(h);
  }
  Encoder encoder(config, std::vector<nn::RemainingHeads>(static_cast<std::size_t>(num_layers), heads));
  test::Random random(seed);
  const auto fill = [&](auto& tensor) {
    for (index_t n = 0; n < tensor.size(); ++n) tensor.data()[n] = static_cast<float>(random.uniform());
  };
  EncoderEmbeddings& embeddings = encoder.embeddings();
  fill(embeddings.word.weight), fill(embeddings.position.weight), fill(embeddings.token_type.weight);
  fill(embeddings.norm.weight), fill(embeddings.norm.bias);
  for (EncoderLayer& layer : encoder.layers()) {
    layer.attention.parameters().for_each([&](const char*, auto& tensor) { fill(tensor); });
    fill(layer.attention_norm.weight), fill(layer.attention_norm.bias);
    fill(layer.feed_forward.up.weight), fill(layer.feed_forward.up.bias);
    fill(layer.feed_forward.down.weight), fill(layer.feed_forward.down.bias);
    fill(layer.feed_forward_norm.weight), fill(layer.feed_forward_norm.bias);
  }
  return encoder;
}

}  // namespace multihead::lens
