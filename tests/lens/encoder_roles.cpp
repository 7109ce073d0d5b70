// The pass over an encoder, against the formulas in plain loops on forwards of single segments.
#include "multihead/lens/encoder_roles.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "lens/small_model.hpp"

namespace multihead::lens {
namespace {

Corpus small_corpus(const Tokenizer& tokenizer) {
  test::Random random(test::run_seed());
  std::string text;
  for (int n = 0; n < 100; ++n) text += "w" + std::to_string(random.integer(0, 29)) + " ";
  return read_corpus(tokenizer, text, {.segment_tokens = 22});
}

EncoderOutput forward_of(const Encoder& encoder, const Segment& segment) {
  const TokenBatch batch = pad_batch({&segment.ids, 1});
  return encoder.forward(batch.input(), {.capture = {.hidden = true, .probs = true, .head_outputs = true}});
}

TEST(EncoderRoles, AreThoseOfPlainLoops) {
  const Tokenizer tokenizer = small_tokenizer(numbered_words(30));
  const Encoder encoder = small_encoder(35);
  const Corpus corpus = small_corpus(tokenizer);
  ASSERT_EQ(corpus.segments.size(), 5u);
  const std::vector<EncoderHead> found = encoder_roles(encoder, corpus, {});
  ASSERT_EQ(found.size(), 4u);
  std::vector<EncoderOutput> outputs;
  for (const Segment& segment : corpus.segments) outputs.push_back(forward_of(encoder, segment));

  for (const EncoderHead& each : found) {
    const auto layer = static_cast<std::size_t>(each.layer);
    const auto weights = encoder.layers()[layer].attention.head(each.head);
    double previous = 0, written = 0, deviation = 0, total = 0;
    for (const EncoderOutput& output : outputs) {
      const HeadMap map = output.heads[layer].probs.view()[0][each.head];
      for (index_t i = 1; i < 22; ++i) {
        previous += map(i, i - 1) / (5.0 * 21);
        double square = 0;
        for (index_t e = 0; e < weights.w_o.shape(0); ++e) {
          double sum = 0;
          for (index_t d = 0; d < 4; ++d)
            sum += static_cast<double>(output.heads[layer].outputs(0, i, each.head, d)) * weights.w_o(e, d);
          square += sum * sum;
        }
        written += std::sqrt(square) / (5.0 * 21);
      }
      for (index_t i = 0; i < 22; ++i) {
        for (index_t j = 0; j < 22; ++j) {
          double mean = 0;
          for (const EncoderOutput& other : outputs) mean += other.heads[layer].probs(0, each.head, i, j) / 5.0;
          deviation += std::abs(map(i, j) - mean), total += map(i, j);
        }
      }
    }
    EXPECT_NEAR(each.roles.score(Role::previous)->mass, previous, 1e-6);
    EXPECT_NEAR(*each.roles.output_norm, written, 1e-5 * written);
    EXPECT_NEAR(*each.variability, deviation / (2 * total), 1e-5);
  }
}

/// A key's part by value: A[i,j] |v_j w_o| over its sum, v with its bias.
TEST(EncoderRoles, WeighKeysByWhatTheyWouldWrite) {
  const Tokenizer tokenizer = small_tokenizer(numbered_words(30));
  const Encoder encoder = small_encoder(35);
  Corpus corpus = small_corpus(tokenizer);
  corpus.segments.resize(1);
  const EncoderHead head = encoder_roles(encoder, corpus, {})[3];
  const EncoderOutput output = forward_of(encoder, corpus.segments[0]);
  const auto weights = encoder.layers()[1].attention.head(1);
  std::vector<double> norms;
  for (index_t j = 0; j < 22; ++j) {
    double square = 0;
    for (index_t e = 0; e < 8; ++e) {
      double sum = 0;
      for (index_t d = 0; d < 4; ++d) {
        double value = weights.b_v(d);
        for (index_t f = 0; f < 8; ++f) value += static_cast<double>(output.hidden[1](0, j, f)) * weights.w_v(d, f);
        sum += value * weights.w_o(e, d);
      }
      square += sum * sum;
    }
    norms.push_back(std::sqrt(square));
  }
  double share = 0;
  for (index_t i = 1; i < 22; ++i) {
    double all = 0;
    for (index_t j = 0; j < 22; ++j) all += output.heads[1].probs(0, 1, i, j) * norms[static_cast<std::size_t>(j)];
    share += output.heads[1].probs(0, 1, i, 0) * norms[0] / all / 21;
  }
  EXPECT_NEAR(*head.roles.score(Role::first)->value_share, share, 1e-5);
  EXPECT_FALSE(head.variability) << "one segment";
}

TEST(EncoderRoles, OfPositionsAloneDoNotVary) {
  const Tokenizer tokenizer = small_tokenizer(numbered_words(30));
  Encoder encoder = small_encoder(35);
  std::fill_n(encoder.embeddings().word.weight.data(), encoder.embeddings().word.weight.size(), 0.5f);
  for (const EncoderHead& head : encoder_roles(encoder, small_corpus(tokenizer), {}))
    EXPECT_NEAR(*head.variability, 0, 1e-6);
}

TEST(EncoderRoles, FeedOtherObserversInTheSamePass) {
  const Tokenizer tokenizer = small_tokenizer(numbered_words(30));
  const Encoder encoder = small_encoder(35);
  const Corpus corpus = small_corpus(tokenizer);
  const std::vector<Segment> repeated =
      repeated_tokens(tokenizer, corpus.frequencies, {.num_sequences = 3, .num_distinct = 7});
  index_t seen = 0, done = 0;
  const Observer count = [&](const ObservedBatch& batch) {
    seen += static_cast<index_t>(batch.segments.size());
    EXPECT_EQ(batch.head_output(0, 1, 1).shape(1), 4);
    EXPECT_EQ(batch.hidden(0, 2).shape(1), 8);
  };
  const EncoderRolesOptions options{.observers = {&count, 1}, .progress = [&](index_t n) { done = n; }};
  encoder_roles(encoder, corpus, repeated, options);
  EXPECT_EQ(seen, 5);
  EXPECT_EQ(done, 5 + 3 + 5);
  EXPECT_EQ(num_runs(corpus, repeated, options), 13);
}

}  // namespace
}  // namespace multihead::lens
