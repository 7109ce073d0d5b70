// How near sentences are in meaning: 04_sentence_vectors MODEL_DIR      (scripts/get-model minilm prints one)
#include <cstdio>

#include "multihead/text_encoder.hpp"

int main(int argc, char** argv) {
  using namespace multihead;
  if (argc != 2) return 2;
  try {
    TextEncoder model = load_text_encoder(argv[1]);
    Threads threads;
    model.encoder.pack_weights(&threads);  // worth it from a few calls of forward on

    const char* const texts[] = {"A dog runs over the beach.", "The puppy is sprinting along the shore.",
                                 "The boat came back to the harbour."};
    std::vector<std::vector<index_t>> ids;
    for (const char* text : texts) ids.push_back(model.encode(text).ids);
    const TokenBatch batch = pad_batch(ids);
    const EncoderOutput output = model.encoder.forward(batch.input(), {.threads = &threads});
    const Tensor<float, 2> vectors =
        pool(output.last_hidden, batch.lengths, model.pooling);  // [3, E], each of length 1

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
