// The comparison of all heads of an encoder, against forwards of single segments.
#include "multihead/lens/redundancy.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "lens/small_model.hpp"
#include "multihead/lens/head_diversity.hpp"
#include "multihead/threads.hpp"
#include "support/error_text.hpp"

namespace multihead::lens {
namespace {

using test::error_of;

constexpr index_t kVocabulary = 30;

/// Segments of 9, 12, 15, .. random tokens.
std::vector<Segment> random_segments(std::size_t count) {
  test::Random random(test::run_seed());
  std::vector<Segment> segments(count);
  for (std::size_t n = 0; n < count; ++n) {
    for (std::size_t t = 0; t < 9 + 3 * n; ++t) segments[n].ids.push_back(random.integer(5, kVocabulary - 1));
    segments[n].tokens.resize(segments[n].ids.size());
    segments[n].special.resize(segments[n].ids.size());
    segments[n].word_ids.resize(segments[n].ids.size());
  }
  return segments;
}

Redundancy compare(const Encoder& encoder, const std::vector<Segment>& segments,
                   const HeadComparisonOptions& options = {}, Executor* threads = nullptr) {
  HeadComparison comparison(encoder, options);
  const Observer add = [&](const ObservedBatch& batch) { comparison.add(batch); };
  observe(encoder, segments, {&add, 1},
          {.capture = {.probs = true, .head_outputs = true}, .batch_bytes = 6000, .threads = threads});
  return comparison.result(threads);
}

/// [tokens, F] of some segments, each run by itself.
Tensor<float, 2> outputs_of(const Encoder& encoder, const std::vector<Segment>& segments, std::size_t layer) {
  const index_t features = encoder.layers()[layer].attention.extents().num_heads * 4;
  index_t tokens = 0;
  for (const Segment& segment : segments) tokens += segment.num_tokens();
  Tensor<float, 2> rows({tokens, features});
  float* to = rows.data();
  for (const Segment& segment : segments) {
    const TokenBatch batch = pad_batch({&segment.ids, 1});
    const EncoderOutput output = encoder.forward(batch.input(), {.capture = {.head_outputs = true}});
    to = std::copy_n(output.heads[layer].outputs.data(), segment.num_tokens() * features, to);
  }
  return rows;
}

HeadProducts products_of(const Tensor<float, 2>& rows) {
  HeadProducts products(rows.shape(1));
  products.add(rows);
  return products;
}

TEST(HeadComparison, IsThatOfTheSegmentsOneByOne) {
  const Encoder encoder = small_encoder(kVocabulary, 3, 3);
  const std::vector<Segment> segments = random_segments(5);
  const std::vector<Segment> even = {segments[0], segments[2], segments[4]}, odd = {segments[1], segments[3]};
  const Redundancy found = compare(encoder, segments);
  ASSERT_EQ(found.layers.size(), 3u);
  for (std::size_t a = 0; a < 3; ++a) {
    const Tensor<float, 2> z_a = outputs_of(encoder, segments, a);
    const HeadProducts of_a = products_of(z_a);
    for (std::size_t b = a; b < 3; ++b) {
      const Tensor<float, 2> z_b = outputs_of(encoder, segments, b);
      const HeadProducts of_b = products_of(z_b);
      Tensor<double, 2> cross({12, 12});
      for (index_t i = 0; i < z_a.shape(0); ++i) {
        for (index_t n = 0; n < 144; ++n) cross(n / 12, n % 12) += static_cast<double>(z_a(i, n / 12)) * z_b(i, n % 12);
      }
      const LayerWrites writes_a{encoder.layers()[a].attention, of_a}, writes_b{encoder.layers()[b].attention, of_b};
      const WriteSimilarity expected = write_similarity(writes_a, writes_b, cross);
      for (index_t i = 0; i < 3; ++i) {
        for (index_t j = 0; j < 3; ++j) {
          const index_t n = static_cast<index_t>(a) * 3 + i, m = static_cast<index_t>(b) * 3 + j;
          EXPECT_NEAR(found.writes.cka(n, m), expected.cka(i, j), 1e-3);
          EXPECT_NEAR(found.writes.cosine(n, m), expected.cosine(i, j), 1e-3);
          EXPECT_EQ(found.writes.cka(n, m), found.writes.cka(m, n));
        }
      }
    }
    const LayerRedundancy& layer = found.layers[a];
    EXPECT_EQ(layer.num_heads, 3);
    const index_t first = static_cast<index_t>(a) * 3;
    EXPECT_EQ(layer.effective_heads,
              effective_heads(found.writes.cka.view().slice(0, first, first + 3).slice(1, first, first + 3)));
    EXPECT_NEAR(layer.averaging_loss.value(), averaging_loss(of_a, 3).value(), 1e-3);
    const Replaceability replaceable =
        replaceability(encoder.layers()[a].attention, products_of(outputs_of(encoder, even, a)),
                       products_of(outputs_of(encoder, odd, a)));
    for (std::size_t h = 0; h < 3; ++h) {
      EXPECT_NEAR(layer.replaceable->r2[h], replaceable.r2[h], 1e-2 * std::max(1.0, std::abs(replaceable.r2[h])));
    }
  }
}

TEST(HeadComparison, ComparesMapsAndPlacesHeads) {
  const Encoder encoder = small_encoder(kVocabulary, 2, 3);
  const std::vector<Segment> segments = random_segments(4);
  const Redundancy found = compare(encoder, segments);
  MapDistances all(6), halves[2] = {MapDistances(6), MapDistances(6)};
  for (std::size_t n = 0; n < segments.size(); ++n) {
    const TokenBatch batch = pad_batch({&segments[n].ids, 1});
    const EncoderOutput output = encoder.forward(batch.input(), {.capture = {.probs = true}});
    std::vector<HeadMap> maps;
    for (index_t head = 0; head < 6; ++head) {
      maps.push_back(output.heads[static_cast<std::size_t>(head / 3)].probs.view()[0][head % 3]);
    }
    all.add(maps), halves[n % 2].add(maps);
  }
  EXPECT_EQ(found.num_queries, 9 + 12 + 15 + 18);
  const Tensor<double, 2> expected = all.mean(), even = halves[0].mean(), odd = halves[1].mean();
  double squares = 0;
  for (index_t n = 0; n < 36; ++n) {
    EXPECT_NEAR(found.map_distance.data()[n], expected.data()[n], 1e-5);
    squares += std::pow(even.data()[n] - odd.data()[n], 2) / 30;  // each of 15 pairs twice
  }
  EXPECT_NEAR(found.halves->map_distance, std::sqrt(squares), 1e-4);
  EXPECT_GT(found.halves->cka, 0);
  EXPECT_EQ(found.cluster.size(), 6u);
  EXPECT_EQ(found.plane.positions.shape(0), 6);
  const std::vector<index_t> nearest = found.nearest(2, 3);
  ASSERT_EQ(nearest.size(), 3u);
  for (index_t other = 0; other < 6; ++other) {
    if (other == 2 || std::ranges::find(nearest, other) != nearest.end()) continue;
    EXPECT_LE(found.writes.cka(2, other), found.writes.cka(2, nearest[2]));
  }
  EXPECT_GE(found.writes.cka(2, nearest[0]), found.writes.cka(2, nearest[1]));
}

TEST(HeadComparison, DrawsQueriesWhereThereAreMany) {
  const Encoder encoder = small_encoder(kVocabulary, 2, 3);
  const std::vector<Segment> segments = random_segments(12);
  const Redundancy all = compare(encoder, segments), some = compare(encoder, segments, {.query_share = 0.5}),
                   others = compare(encoder, segments, {.query_share = 0.5, .seed = 2});
  EXPECT_EQ(all.num_queries, 306);
  EXPECT_NEAR(static_cast<double>(some.num_queries), 153, 40);
  EXPECT_NE(some.map_distance(0, 1), others.map_distance(0, 1));
  EXPECT_NEAR(some.map_distance(0, 1), all.map_distance(0, 1), 0.3 * all.map_distance(0, 1));
  EXPECT_EQ(affordable_query_share(encoder, segments), 1);
  const std::vector<Segment> long_text(1000, segments[11]);
  EXPECT_EQ(affordable_query_share(small_encoder(kVocabulary, 16, 24), long_text),
            4e9 / (384 * 383 / 2.0 * 1000 * 42 * 42));
}

TEST(HeadComparison, FindsAPlantedCopy) {
  Encoder encoder = small_encoder(kVocabulary, 2, 2);
  const std::vector<Segment> segments = random_segments(6);
  const Redundancy before = compare(encoder, segments);
  // Head 1 of layer 0 becomes head 0 of the same layer in everything.
  auto& p = encoder.layers()[0].attention.parameters();
  for (auto* w : {&p.w_q, &p.w_k, &p.w_v}) std::copy_n(w->data(), 4 * 8, w->data() + 4 * 8);
  for (auto* b : {&p.b_q, &p.b_k, &p.b_v}) std::copy_n(b->data(), 4, b->data() + 4);
  for (index_t e = 0; e < 8; ++e) std::copy_n(&p.w_o(e, 0), 4, &p.w_o(e, 4));
  const Redundancy found = compare(encoder, segments);
  EXPECT_NE(before.cluster[0], before.cluster[1]);
  EXPECT_EQ(found.cluster[0], found.cluster[1]);
  EXPECT_EQ(found.nearest(0, 3)[0], 1);
  EXPECT_NEAR(found.writes.cosine(0, 1), 1, 1e-6);
  EXPECT_EQ(found.map_distance(0, 1), 0);
  EXPECT_NEAR(found.plane.positions(0, 0), found.plane.positions(1, 0), 1e-6);
  EXPECT_NEAR(found.layers[0].effective_heads, 1, 1e-4);
}

TEST(HeadComparison, HasTheSameBitsForAnyThreads) {
  const Encoder encoder = small_encoder(kVocabulary, 2, 3);
  const std::vector<Segment> segments = random_segments(4);
  Threads threads(3);
  const Redundancy one = compare(encoder, segments), many = compare(encoder, segments, {}, &threads);
  for (index_t n = 0; n < one.writes.cka.size(); ++n) {
    EXPECT_EQ(one.writes.cka.data()[n], many.writes.cka.data()[n]);
    EXPECT_EQ(one.writes.cosine.data()[n], many.writes.cosine.data()[n]);
    EXPECT_EQ(one.map_distance.data()[n], many.map_distance.data()[n]);
  }
  for (std::size_t layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(one.layers[layer].replaceable->r2, many.layers[layer].replaceable->r2);
  }
}

TEST(HeadComparison, LeavesOutWhatThereIsNoRoomOrTextFor) {
  const Encoder encoder = small_encoder(kVocabulary, 2, 2);
  const std::vector<Segment> segments = random_segments(2);
  const Redundancy within = compare(encoder, segments, {.cross_bytes = 8 * 8 * 8 - 1});
  for (index_t n = 0; n < 16; ++n) {
    EXPECT_EQ(std::isnan(within.writes.cka(n / 4, n % 4)), (n / 4 < 2) != (n % 4 < 2)) << n;
  }
  const Redundancy across = compare(encoder, segments, {.cross_bytes = 8 * 8 * 8});
  EXPECT_FALSE(std::isnan(across.writes.cka(0, 2)));
  const Redundancy single = compare(encoder, {segments[0]});
  EXPECT_EQ(single.layers[0].replaceable.has_value(), false);
  EXPECT_GT(single.layers[0].effective_heads, 1);
  EXPECT_EQ(error_of([&] { HeadComparison(encoder).result(); }),
            "HeadComparison::result: a segment must have been added, got num_segments=0");
  HeadComparison comparison(encoder);
  const Observer add = [&](const ObservedBatch& batch) { comparison.add(batch); };
  EXPECT_EQ(error_of([&] {
              observe(encoder, segments, {&add, 1}, {.capture = {.head_outputs = true}});
            }),
            "HeadComparison::add: probs of all heads must be captured, got layer=0, captured=0, num_heads=2");
  EXPECT_EQ(error_of([&] {
              observe(encoder, segments, {&add, 1}, {.capture = {}});
            }),
            "HeadComparison::add: head_outputs of all layers must be captured, got layers=0, expected=2");
}

TEST(HeadComparison, CopesWithLayersThatLostHeads) {
  Encoder encoder = small_encoder(kVocabulary, 3, 2);
  const index_t one[] = {1}, all[] = {0, 1};
  encoder.layers()[0].attention.remove_heads(one);
  encoder.layers()[1].attention.remove_heads(all, nn::RemoveAll::allow);
  const Redundancy found = compare(encoder, random_segments(3));
  EXPECT_EQ(found.writes.cka.shape(0), 3);
  EXPECT_EQ(found.layers[0].effective_heads, 1);
  EXPECT_NEAR(found.layers[0].averaging_loss.value(), 0, 1e-5);
  EXPECT_EQ(found.layers[1].effective_heads, 0);
  EXPECT_EQ(found.layers[1].averaging_loss, std::nullopt);
  EXPECT_FALSE(found.layers[1].replaceable.has_value());
  EXPECT_FALSE(std::isnan(found.writes.cka(0, 2)));
}

}  // namespace
}  // namespace multihead::lens
