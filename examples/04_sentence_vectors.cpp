// How near sentences are in meaning: 04_sentence_vectors MODEL_DIR      (scripts/get-model minilm prints one)
#include <cstdio>

#include "multihead/encoder.hpp"
#include "multihead/sentence_embedding.hpp"
#include "multihead/tokenizer.hpp"

int main(int argc, char** argv) {
  using namespace multihead;
  if (argc != 2) return 2;
  try {
    const Tokenizer tokenizer = Tokenizer::load(argv[1]);
    Encoder encoder = load_encoder(argv[1]);
    const SentencePooling pooling = load_sentence_pooling(argv[1]);
    const index_t max_length = pooling.max_tokens > 0 ? pooling.max_tokens : encoder.max_tokens();
    Threads threads;
    encoder.pack_weights(&threads);  // worth it from a few calls of forward on

    const char* const texts[] = {"A dog runs over the beach.", "The puppy is sprinting along the shore.",
                                 "The boat came back to the harbour."};
    std::vector<std::vector<index_t>> ids;
    for (const char* text : texts) ids.push_back(tokenizer.encode(text, {.max_length = max_length}).ids);
    const TokenBatch batch = pad_batch(ids);
    const EncoderOutput output = encoder.forward(batch.input(), {.threads = &threads});
    const Tensor<float, 2> vectors = pool(output.last_hidden, batch.lengths, pooling);  // [3, E], each of length 1

    for (index_t a = 0; a < vectors.shape(0); ++a) {
      for (index_t b = a + 1; b < vectors.shape(0); ++b) {
        float cosine = 0;
        for (index_t e = 0; e < vectors.shape(1); ++e) cosine += vectors(a, e) * vectors(b, e);
        std::printf("%5.2f  %s | %s\n", cosine, texts[a], texts[b]);
      }
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
// Prints:
//    0.61  A dog runs over the beach. | The puppy is sprinting along the shore.
//    0.18  A dog runs over the beach. | The boat came back to the harbour.
//    0.30  The puppy is sprinting along the shore. | The boat came back to the harbour.
