// The real model against PyTorch and transformers: minilm.py says how the values were made.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "multihead/encoder.hpp"
#include "multihead/safetensors.hpp"
#include "multihead/sentence_embedding.hpp"

namespace multihead {
namespace {

namespace fs = std::filesystem;

fs::path model_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const fs::path base = cache && *cache ? fs::path(cache) : fs::path(home ? home : "") / ".cache";
  return base / "multihead/models/minilm";
}

fs::path golden_file() {
  const char* whole = std::getenv("MULTIHEAD_MINILM_GOLDEN");
  return whole ? fs::path(whole) : fs::path(MULTIHEAD_SOURCE_DIR) / "tests/golden/data/minilm.safetensors";
}

// Every stride-th value of a stream, held against those of the file.
class Sampled {
 public:
  Sampled(TensorView<const float, 1> expected, index_t stride) : expected_(expected), stride_(stride) {}

  void next(float value) {
    if (seen_++ % stride_ != 0) return;
    if (compared_ < expected_.shape(0)) {
      worst_ = std::max(worst_, std::abs(static_cast<double>(value) - expected_(compared_)));
      if (std::isnan(value)) worst_ = INFINITY;
    }
    ++compared_;
  }
  index_t compared() const { return compared_; }
  double worst() const { return compared_ == expected_.shape(0) ? worst_ : INFINITY; }

 private:
  TensorView<const float, 1> expected_;
  index_t stride_, seen_ = 0, compared_ = 0;
  double worst_ = 0;
};

TEST(MiniLM, MatchesPyTorch) {
  if (!fs::exists(model_folder() / "model.safetensors")) {
    GTEST_SKIP() << "there is no model in " << model_folder() << "; scripts/get-model minilm brings it";
  }
  const Encoder encoder = load_encoder(model_folder());
  const SentencePooling pooling = load_sentence_pooling(model_folder());
  EXPECT_TRUE(pooling.normalize);
  const Safetensors golden = load_safetensors(golden_file());
  const index_t stride = std::stoll(golden.metadata().at("stride"));
  const index_t batches = std::stoll(golden.metadata().at("batches"));
  const Tensor<float, 2> embeddings = golden.read<float, 2>("embeddings");
  Threads threads;

  double worst_hidden = 0, worst_probs = 0, worst_embedding = 0;
  index_t num_texts = 0, num_hidden = 0, num_probs = 0;
  for (index_t n = 0; n < batches; ++n) {
    const std::string batch = std::to_string(n);
    const auto lengths = golden.view<index_t, 1>(batch + ".lengths");
    const EncoderOutput out =
        encoder.forward({.token_ids = golden.view<index_t, 2>(batch + ".ids"), .lengths = lengths},
                        {.capture = {.hidden = true, .probs = true}, .threads = &threads});

    const Tensor<float, 1> expected_hidden = golden.read<float, 1>(batch + ".hidden");
    Sampled hidden(expected_hidden, stride);
    for (const Tensor<float, 3>& layer : out.hidden) {
      for (index_t b = 0; b < lengths.shape(0); ++b) {
        for (index_t i = 0; i < lengths(b); ++i) {
          for (index_t j = 0; j < layer.shape(2); ++j) hidden.next(layer(b, i, j));
        }
      }
    }
    const Tensor<float, 1> expected_probs = golden.read<float, 1>(batch + ".probs");
    Sampled probs(expected_probs, stride);
    for (const CapturedHeads& layer : out.heads) {
      ASSERT_EQ(layer.heads.size(), 12u);
      for (index_t b = 0; b < lengths.shape(0); ++b) {
        for (index_t h = 0; h < 12; ++h) {
          for (index_t i = 0; i < lengths(b); ++i) {
            for (index_t j = 0; j < lengths(b); ++j) probs.next(layer.probs(b, h, i, j));
          }
        }
      }
    }
    const Tensor<float, 2> pooled = pool(out.last_hidden.view(), lengths, pooling);
    for (index_t b = 0; b < pooled.shape(0); ++b, ++num_texts) {
      for (index_t j = 0; j < pooled.shape(1); ++j) {
        worst_embedding = std::max(worst_embedding, std::abs(double{pooled(b, j)} - embeddings(num_texts, j)));
      }
    }
    worst_hidden = std::max(worst_hidden, hidden.worst());
    worst_probs = std::max(worst_probs, probs.worst());
    num_hidden += hidden.compared();
    num_probs += probs.compared();
  }
  EXPECT_EQ(num_texts, embeddings.shape(0));
  EXPECT_LT(worst_hidden, 2e-5);
  EXPECT_LT(worst_probs, 2e-5);
  EXPECT_LT(worst_embedding, 1e-5);
  std::printf(
      "MiniLM: %lld texts; largest difference from PyTorch: %.2g over %lld hidden values, %.2g over %lld "
      "probabilities, %.2g in the embeddings\n",
      static_cast<long long>(num_texts), worst_hidden, static_cast<long long>(num_hidden), worst_probs,
      static_cast<long long>(num_probs), worst_embedding);
}

}  // namespace
}  // namespace multihead
