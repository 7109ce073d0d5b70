// The heads of a checkpoint on a sentence: 03_heads_of_a_model MODEL_DIR      (scripts/get-model minilm prints one)
#include <algorithm>
#include <cstdio>

#include "multihead/text_encoder.hpp"

int main(int argc, char** argv) {
  using namespace multihead;
  if (argc != 2) return 2;
  try {
    const TextEncoder model = load_text_encoder(argv[1]);
    const Encoding text = model.encode("The animal didn't cross the street because it was too tired.");

    const LayerHead head{.layer = 3, .head = 1};  // counted from 0
    const TokenBatch batch = pad_batch({&text.ids, 1});
    const EncoderOutput output =
        model.encoder.forward(batch.input(), {.capture = {.probs = true, .heads = std::vector{head}}});
    const auto probs = output.heads[head.layer].probs.view()[0][0];  // [S, S]: batch entry 0, the one captured head

    for (index_t i = 0; i < probs.shape(0); ++i) {
      const float* row = &probs(i, 0);
      const index_t j = std::max_element(row, row + probs.shape(1)) - row;
      std::printf("%-8s looks at %-8s %.2f\n", text.tokens[i].c_str(), text.tokens[j].c_str(), row[j]);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
// Prints:
//   [CLS]    looks at [CLS]    0.99
//   the      looks at animal   0.52
//   animal   looks at [CLS]    0.81
//   didn     looks at [CLS]    0.48
//   '        looks at [CLS]    0.63
//   t        looks at [CLS]    0.66
//   cross    looks at street   0.60
//   the      looks at [CLS]    0.75
//   street   looks at [CLS]    0.89
//   because  looks at [CLS]    0.26
//   it       looks at animal   0.68
//   was      looks at tired    0.30
//   too      looks at [CLS]    0.82
//   tired    looks at [CLS]    0.69
//   .        looks at the      0.35
//   [SEP]    looks at animal   0.44
