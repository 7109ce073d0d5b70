// Heads that go: those that the rest can do without, however they are counted.
#include "multihead/lens/prune.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "lens/small_model.hpp"
#include "multihead/lens/vector_agreement.hpp"
#include "multihead/threads.hpp"
#include "support/error_text.hpp"

namespace multihead::lens {
namespace {

using test::error_of;
using test::Random;

constexpr index_t kVocabulary = 40, kLayers = 2, kHeads = 4;

std::vector<Segment> random_segments(index_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<Segment> segments;
  for (index_t n = 0; n < count; ++n) {
    Segment segment;
    for (index_t t = 0; t < 12 + n % 5; ++t) {
      segment.ids.push_back(random.integer(5, kVocabulary - 1));
      segment.tokens.emplace_back("t");
      segment.word_ids.emplace_back(t);
      segment.special.push_back(0);
    }
    segments.push_back(std::move(segment));
  }
  return segments;
}

std::vector<std::vector<index_t>> ids_of(const std::vector<Segment>& segments) {
  std::vector<std::vector<index_t>> ids;
  for (const Segment& segment : segments) ids.push_back(segment.ids);
  return ids;
}

/// Head `to` of a layer computes what head `from` does.
void copy_head(Encoder& encoder, index_t layer, index_t from, index_t to) {
  auto& attention = encoder.layers()[static_cast<std::size_t>(layer)].attention;
  const auto a = attention.head(from), b = attention.head(to);
  const auto copy2 = [](const auto& x, const auto& y) {
    for (index_t i = 0; i < x.shape(0); ++i) {
      for (index_t j = 0; j < x.shape(1); ++j) y(i, j) = x(i, j);
    }
  };
  const auto copy1 = [](const auto& x, const auto& y) {
    for (index_t i = 0; i < x.shape(0); ++i) y(i) = x(i);
  };
  copy2(a.w_q, b.w_q), copy2(a.w_k, b.w_k), copy2(a.w_v, b.w_v);
  copy1(a.b_q, b.b_q), copy1(a.b_k, b.b_k), copy1(a.b_v, b.b_v);
}

double loss(const Encoder& before, const Encoder& after, const std::vector<Segment>& segments) {
  const auto ids = ids_of(segments);
  const Tensor<float, 2> a = sentence_vectors(before, {}, ids), b = sentence_vectors(after, {}, ids);
  return compare_vectors(a, b).loss;
}

std::set<std::pair<index_t, index_t>> as_set(const std::vector<LayerHead>& heads) {
  std::set<std::pair<index_t, index_t>> all;
  for (const LayerHead& head : heads) all.emplace(head.layer, head.head);
  return all;
}

TEST(Prune, FoldTakesOneOfTwinsAndLosesNothing) {
  const Encoder original = [] {
    Encoder encoder = small_encoder(kVocabulary, kLayers, kHeads, 3);
    copy_head(encoder, 0, 1, 3);
    copy_head(encoder, 1, 0, 2);
    return encoder;
  }();
  const std::vector<Segment> text = random_segments(60, 1), held_out = random_segments(20, 2);
  for (const Selection selection : {Selection::loss, Selection::error}) {
    Encoder pruned = original.clone();
    const auto gone = as_set(prune_heads(pruned, text, 2, {.selection = selection, .ridge = 1e-9}));
    const bool one_each =
        (gone.contains({0, 1}) != gone.contains({0, 3})) && (gone.contains({1, 0}) != gone.contains({1, 2}));
    EXPECT_TRUE(one_each);
    EXPECT_LT(loss(original, pruned, held_out), 1e-7);

    Encoder plain = original.clone();
    for (const auto& [layer, head] : gone) {
      plain.layers()[static_cast<std::size_t>(layer)].attention.remove_heads({{head}});
    }
    EXPECT_GT(loss(original, plain, held_out), 1e-3);
  }
}

TEST(Prune, AHeadThatWritesNothingGoesFirst) {
  for (const Selection selection : {Selection::loss, Selection::error, Selection::output}) {
    Encoder encoder = small_encoder(kVocabulary, kLayers, kHeads, 5);
    const auto silent = encoder.layers()[1].attention.head(2).w_o;
    for (index_t i = 0; i < silent.shape(0); ++i) {
      for (index_t j = 0; j < silent.shape(1); ++j) silent(i, j) = 0;
    }
    const Encoder before = encoder.clone();
    const std::vector<Segment> text = random_segments(30, 6);
    const auto gone = prune_heads(encoder, text, 1, {.selection = selection, .compensation = Compensation::none});
    EXPECT_EQ(gone, (std::vector<LayerHead>{{1, 2}}));
    EXPECT_LT(loss(before, encoder, text), 1e-10);
    EXPECT_EQ(encoder.layers()[1].attention.heads().original_heads, (std::vector<index_t>{0, 1, 3}));
  }
}

TEST(Prune, RemovedIsTheSameAsGatedToZero) {
  const Encoder original = small_encoder(kVocabulary, kLayers, kHeads, 7);
  const std::vector<Segment> text = random_segments(20, 8);
  Encoder pruned = original.clone();
  const auto gone = prune_heads(pruned, text, 3, {.compensation = Compensation::none});
  std::vector<Tensor<float, 1>> gates;
  for (index_t l = 0; l < kLayers; ++l) {
    gates.emplace_back(std::array{kHeads});
    for (index_t h = 0; h < kHeads; ++h) gates.back()(h) = std::ranges::find(gone, LayerHead{l, h}) == gone.end();
  }
  const std::vector<TensorView<const float, 1>> views(gates.begin(), gates.end());
  const TokenBatch batch = pad_batch(ids_of(text));
  const EncoderOutput a = original.forward(batch.input(), {.gates = views}), b = pruned.forward(batch.input());
  for (index_t n = 0; n < a.last_hidden.size(); ++n) {
    ASSERT_NEAR(a.last_hidden.data()[n], b.last_hidden.data()[n], 1e-5);
  }
}

TEST(Prune, StepsHaveOriginalNumbersAndALayerKeepsAHead) {
  Encoder encoder = small_encoder(kVocabulary, kLayers, kHeads, 9);
  const std::vector<Segment> text = random_segments(30, 10);
  EXPECT_EQ(num_removable_heads(encoder, false), 6);
  EXPECT_EQ(num_removable_heads(encoder, true), 8);
  std::set<std::pair<index_t, index_t>> all;
  for (int step = 0; step < 3; ++step) all.merge(as_set(prune_heads(encoder, text, 2)));
  EXPECT_EQ(all.size(), 6u);
  for (const EncoderLayer& layer : encoder.layers()) {
    ASSERT_EQ(layer.attention.num_heads(), 1);
    const index_t left = layer.attention.heads().original_heads.front();
    EXPECT_FALSE(all.contains({&layer - encoder.layers().data(), left}));
  }
  EXPECT_EQ(error_of([&] { prune_heads(encoder, text, 1); }),
            "prune_heads: count must be in [0, num_removable_heads], got count=1, num_removable_heads=0");
  prune_heads(encoder, text, 2, {.allow_empty_layers = true});
  EXPECT_EQ(encoder.layers()[0].attention.num_heads(), 0);
  EXPECT_EQ(num_removable_heads(encoder, true), 0);
  EXPECT_EQ(error_of([&] { prune_heads(encoder, {}, 0); }), "prune_heads: text must have a segment, got segments=0");
}

TEST(Prune, AnyNumberOfThreadsGivesTheSameModel) {
  const std::vector<Segment> text = random_segments(30, 12);
  Threads threads(3);
  for (const Selection selection : {Selection::loss, Selection::error, Selection::output, Selection::random}) {
    Encoder a = small_encoder(kVocabulary, kLayers, kHeads, 11), b = a.clone();
    const auto gone = prune_heads(a, text, 4, {.selection = selection});
    EXPECT_EQ(gone, prune_heads(b, text, 4, {.selection = selection, .threads = &threads}));
    for (std::size_t l = 0; l < 2; ++l) {
      const auto &x = a.layers()[l].attention.parameters().w_o, &y = b.layers()[l].attention.parameters().w_o;
      ASSERT_EQ(x.size(), y.size());
      EXPECT_TRUE(std::equal(x.data(), x.data() + x.size(), y.data()));
    }
  }
}

TEST(Prune, TheLossIsOfTheVectorNotOfTheLayer) {
  Encoder encoder = small_encoder(kVocabulary, 1, kHeads, 21);
  const auto loud = encoder.layers().back().attention.head(1).w_o;
  for (index_t d = 0; d < loud.shape(1); ++d) {  // the same into every feature, which the norm takes away
    const float value = 3 * loud(0, d);
    for (index_t e = 0; e < loud.shape(0); ++e) loud(e, d) = value;
  }
  const std::vector<Segment> text = random_segments(40, 22);
  Encoder first = encoder.clone(), second = encoder.clone();
  EXPECT_EQ(prune_heads(first, text, 1, {.compensation = Compensation::none}), (std::vector<LayerHead>{{0, 1}}));
  EXPECT_NE(prune_heads(second, text, 1, {.selection = Selection::error, .compensation = Compensation::none}),
            (std::vector<LayerHead>{{0, 1}}));
}

TEST(Prune, RandomHeadsAreOfTheSeed) {
  const Encoder original = small_encoder(kVocabulary, kLayers, kHeads, 13);
  const std::vector<Segment> text = random_segments(10, 14);
  std::set<std::set<std::pair<index_t, index_t>>> seen;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Encoder a = original.clone(), b = original.clone();
    const PruneOptions options{.selection = Selection::random, .seed = seed};
    const auto gone = prune_heads(a, text, 3, options);
    EXPECT_EQ(gone, prune_heads(b, text, 3, options));
    seen.insert(as_set(gone));
  }
  EXPECT_GT(seen.size(), 4u);
}

TEST(VectorAgreement, OfCopiesTurnedAndMovedVectors) {
  Random random(15);
  Tensor<float, 2> a({9, 6}), b({9, 6});
  for (index_t n = 0; n < a.size(); ++n) a.data()[n] = static_cast<float>(random.uniform());
  for (index_t i = 0; i < 9; ++i) {
    for (index_t e = 0; e < 6; ++e) b(i, e) = 3 * a(i, e);
  }
  VectorAgreement same = compare_vectors(a, b);
  EXPECT_NEAR(same.loss, 0, 1e-12);
  EXPECT_NEAR(*same.ranking, 1, 1e-12);
  EXPECT_EQ(same.nearest, 1);
  for (index_t i = 0; i < 9; ++i) {
    for (index_t e = 0; e < 6; ++e) b(i, e) = -a(i, e);  // the cosines among them stay
  }
  same = compare_vectors(a, b);
  EXPECT_NEAR(same.loss, 2, 1e-12);
  EXPECT_NEAR(*same.ranking, 1, 1e-12);
  EXPECT_EQ(same.nearest, 1);

  Tensor<float, 2> p({3, 2}), q({3, 2});
  const float from[] = {1, 0, 0.9f, 0.1f, 0, 1}, to[] = {1, 0, 0.1f, 0.9f, 0, 1};
  std::copy_n(from, 6, p.data()), std::copy_n(to, 6, q.data());
  const VectorAgreement moved = compare_vectors(p, q);
  const double cosine = 0.18 / 0.82;
  EXPECT_NEAR(moved.loss, (1 - cosine) / 3, 1e-6);
  EXPECT_NEAR(*moved.ranking, 0.5, 1e-12);      // pairs 01 02 12: ranks 2 0 1 and 1 0 2
  EXPECT_NEAR(*moved.nearest, 2.0 / 3, 1e-12);  // of 1 it was 0 and is 2
  EXPECT_FALSE(compare_vectors(p.view().slice(0, 0, 1), q.view().slice(0, 0, 1)).ranking);
  EXPECT_EQ(error_of([&] { compare_vectors(p, a); }),
            "compare_vectors: a and b must be [N, E], N above 0, got a=[3, 2], b=[9, 6]");
}

TEST(VectorAgreement, SequencesAreTheirOwn) {
  const Encoder encoder = small_encoder(kVocabulary, kLayers, kHeads, 17);
  const auto ids = ids_of(random_segments(70, 18));
  const Tensor<float, 2> all = sentence_vectors(encoder, {}, ids);
  for (const std::size_t n : {0u, 31u, 32u, 69u}) {
    const Tensor<float, 2> alone = sentence_vectors(encoder, {}, {{ids[n]}});
    EXPECT_TRUE(std::equal(alone.data(), alone.data() + alone.size(), &all(static_cast<index_t>(n), 0)));
  }
}

}  // namespace
}  // namespace multihead::lens
