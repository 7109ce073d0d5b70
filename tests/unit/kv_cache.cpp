// KvCache: what it holds after append, truncate, drop, fork and ring eviction; what it refuses.
#include "multihead/kv_cache.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "multihead/nn/rope.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/random.hpp"

namespace multihead {
namespace {

using test::error_of;
using test::Random;

using Numbers = std::vector<index_t>;

constexpr index_t kHeads = 2, kDim = 3, kDimV = 2;

KvCacheShape shape_of(index_t num_sequences, DType dtype = DType::f32) {
  return {num_sequences, kHeads, kDim, kDimV, dtype};
}

// Token number n of a test: all of its entries tell n, the kv head and the feature.
float key_entry(index_t n, index_t g, index_t d) { return static_cast<float>(100 * n + 10 * g + d) + 0.25f; }

struct NewTokens {
  Tensor<float, 4> k, v;

  // numbers[b] holds the tokens of sequence b.
  explicit NewTokens(const std::vector<std::vector<index_t>>& numbers) {
    index_t longest = 0;
    for (const auto& list : numbers) longest = std::max(longest, static_cast<index_t>(list.size()));
    k = Tensor<float, 4>({static_cast<index_t>(numbers.size()), longest, kHeads, kDim});
    v = Tensor<float, 4>({static_cast<index_t>(numbers.size()), longest, kHeads, kDimV});
    for (std::size_t b = 0; b < numbers.size(); ++b) {
      for (std::size_t i = 0; i < numbers[b].size(); ++i) {
        for (index_t g = 0; g < kHeads; ++g) {
          for (index_t d = 0; d < kDim; ++d) k(b, i, g, d) = key_entry(numbers[b][i], g, d);
          for (index_t d = 0; d < kDimV; ++d) v(b, i, g, d) = -key_entry(numbers[b][i], g, d);
        }
      }
    }
  }
};

void append(KvCache& cache, const std::vector<std::vector<index_t>>& numbers) {
  const NewTokens tokens(numbers);
  std::vector<index_t> counts;
  for (const auto& list : numbers) counts.push_back(static_cast<index_t>(list.size()));
  cache.append(tokens.k.view(), tokens.v.view(), {counts.data(), {static_cast<index_t>(counts.size())}});
}

// The token numbers that sequence b holds, read through the view as attention would; checks every entry on the way.
std::vector<index_t> held(const KvCache& cache, index_t b) {
  const KvCacheView view = cache.view();
  const auto k = view.k.as<float>();
  const auto v = view.v.as<float>();
  std::vector<index_t> numbers;
  for (index_t j = 0; j < view.seqlen_kv(b); ++j) {
    const index_t page = view.page_table(b, j / cache.page_size()), row = j % cache.page_size();
    const index_t n = static_cast<index_t>(k(page, row, 0, 0)) / 100;
    for (index_t g = 0; g < kHeads; ++g) {
      for (index_t d = 0; d < kDim; ++d) EXPECT_EQ(k(page, row, g, d), key_entry(n, g, d));
      for (index_t d = 0; d < kDimV; ++d) EXPECT_EQ(v(page, row, g, d), -key_entry(n, g, d));
    }
    numbers.push_back(n);
  }
  return numbers;
}

std::vector<KvCache> caches_of_every_kind(index_t num_sequences) {
  std::vector<KvCache> caches;
  caches.push_back(KvCache::contiguous(shape_of(num_sequences), 16));
  caches.push_back(KvCache::paged(shape_of(num_sequences), 2, 8 * num_sequences));
  caches.push_back(KvCache::paged(shape_of(num_sequences), 5, 4 * num_sequences));
  caches.push_back(KvCache::ring(shape_of(num_sequences), 2, 14));
  return caches;
}

// Attention case 41: two operations, no sign tricks.
TEST(KvCache, TruncateAndDropAreTwoOperations) {
  for (KvCache& cache : caches_of_every_kind(1)) {
    append(cache, {{1, 2, 3}});
    cache.drop_last(0, 0);
    EXPECT_EQ(held(cache, 0), (Numbers{1, 2, 3}));
    EXPECT_EQ(error_of([&] { cache.drop_last(0, 5); }),
              "KvCache::drop_last: num_tokens must be in [0, the length], got num_tokens=5, length=3");
    EXPECT_EQ(cache.length(0), 3);
    cache.truncate_to(0, 2);
    EXPECT_EQ(cache.next_position(0), 2);
    append(cache, {{9}});
    EXPECT_EQ(held(cache, 0), (Numbers{1, 2, 9}));
    EXPECT_EQ(cache.next_position(0), 3);
    cache.truncate_to(0, 0);
    EXPECT_EQ(cache.length(0), 0);
    EXPECT_EQ(cache.num_free_pages(), cache.num_pages());
    append(cache, {{4}});
    EXPECT_EQ(held(cache, 0), (Numbers{4}));
  }
}

TEST(KvCache, SequencesGrowApart) {
  for (KvCache& cache : caches_of_every_kind(3)) {
    append(cache, {{1, 2, 3}, {}, {4}});
    append(cache, {{}, {5, 6}, {7, 8, 9, 10}});
    EXPECT_EQ(held(cache, 0), (Numbers{1, 2, 3}));
    EXPECT_EQ(held(cache, 1), (Numbers{5, 6}));
    EXPECT_EQ(held(cache, 2), (Numbers{4, 7, 8, 9, 10}));
    EXPECT_EQ(cache.next_position(2), 5);
  }
}

TEST(KvCache, ForksGoTheirOwnWays) {
  for (KvCache& cache : caches_of_every_kind(3)) {
    append(cache, {{1, 2, 3}, {4}, {}});
    cache.fork(0, 1);
    cache.fork(1, 2);
    EXPECT_EQ(cache.next_position(2), 3);
    append(cache, {{10}, {11}, {12}});  // all three leave one shared page
    EXPECT_EQ(held(cache, 0), (Numbers{1, 2, 3, 10}));
    EXPECT_EQ(held(cache, 1), (Numbers{1, 2, 3, 11}));
    EXPECT_EQ(held(cache, 2), (Numbers{1, 2, 3, 12}));
    cache.fork(2, 0);
    cache.truncate_to(0, 1);
    append(cache, {{13}, {}, {}});
    EXPECT_EQ(held(cache, 0), (Numbers{1, 13}));
    EXPECT_EQ(held(cache, 2), (Numbers{1, 2, 3, 12}));
    cache.fork(1, 1);
    EXPECT_EQ(held(cache, 1), (Numbers{1, 2, 3, 11}));
    for (index_t b = 0; b < 3; ++b) cache.truncate_to(b, 0);
    EXPECT_EQ(cache.num_free_pages(), cache.num_pages());
  }
}

TEST(KvCache, ForkSharesPagesUntilOneWrites) {
  KvCache cache = KvCache::paged(shape_of(2), 4, 8);
  append(cache, {{1, 2, 3, 4, 5}, {}});
  EXPECT_EQ(cache.num_free_pages(), 6);
  cache.fork(0, 1);
  EXPECT_EQ(cache.num_free_pages(), 6);
  append(cache, {{}, {6}});
  EXPECT_EQ(cache.num_free_pages(), 5);  // the full page is still shared, the last one is not
  append(cache, {{7}, {}});
  EXPECT_EQ(cache.num_free_pages(), 5);
}

TEST(KvCache, RingKeepsSinksAndTheLastTokens) {
  KvCache cache = KvCache::ring(shape_of(2), 2, 3);
  append(cache, {{1, 2, 3, 4, 5, 6}, {20}});
  EXPECT_EQ(held(cache, 0), (Numbers{1, 2, 4, 5, 6}));
  EXPECT_EQ(cache.next_position(0), 6);
  EXPECT_EQ(cache.room(0), 0);
  EXPECT_EQ(cache.room(1), 4);
  append(cache, {{7, 8, 9, 10, 11, 12, 13}, {}});
  EXPECT_EQ(held(cache, 0), (Numbers{1, 2, 11, 12, 13}));
  EXPECT_EQ(held(cache, 1), (Numbers{20}));
  cache.drop_last(0, 2);
  EXPECT_EQ(held(cache, 0), (Numbers{1, 2, 11}));
  EXPECT_EQ(cache.next_position(0), 11);
  cache.fork(0, 1);
  append(cache, {{30, 31, 32}, {40}});
  EXPECT_EQ(held(cache, 0), (Numbers{1, 2, 30, 31, 32}));
  EXPECT_EQ(held(cache, 1), (Numbers{1, 2, 11, 40}));
}

// Any run of operations leaves what plain lists would hold, and loses no page.
TEST(KvCache, RandomOperationsAgreeWithPlainLists) {
  const std::uint64_t seed = test::run_seed();
  for (std::uint64_t round = 0; round < 60; ++round) {
    Random random(seed + round);
    const index_t num_sequences = random.integer(1, 4), sinks = random.integer(0, 2), window = random.integer(1, 5);
    const bool ring = random.chance(0.4);
    KvCache cache = ring ? KvCache::ring(shape_of(num_sequences), sinks, window)
                         : KvCache::paged(shape_of(num_sequences), random.integer(1, 5), random.integer(3, 12));
    std::vector<Numbers> lists(static_cast<std::size_t>(num_sequences));
    index_t next = 1;
    for (int step = 0; step < 60; ++step) {
      const index_t b = random.integer(0, num_sequences - 1);
      Numbers& list = lists[static_cast<std::size_t>(b)];
      if (random.chance(0.6)) {
        std::vector<Numbers> more(lists.size());
        for (Numbers& m : more) m.resize(static_cast<std::size_t>(random.integer(0, 3)));
        for (Numbers& m : more) std::generate(m.begin(), m.end(), [&] { return next++; });
        try {
          append(cache, more);
        } catch (const ShapeError&) {
          continue;  // nothing was appended: the comparison below would show it
        }
        for (std::size_t s = 0; s < lists.size(); ++s) {
          for (const index_t n : more[s]) {
            if (ring && static_cast<index_t>(lists[s].size()) == sinks + window)
              lists[s].erase(lists[s].begin() + sinks);
            lists[s].push_back(n);
          }
        }
      } else if (random.chance(0.5)) {
        const index_t from = random.integer(0, num_sequences - 1);
        cache.fork(from, b);
        list = Numbers(lists[static_cast<std::size_t>(from)]);
      } else {
        list.resize(static_cast<std::size_t>(random.integer(0, static_cast<index_t>(list.size()))));
        cache.truncate_to(b, static_cast<index_t>(list.size()));
      }
      for (index_t s = 0; s < num_sequences; ++s)
        ASSERT_EQ(held(cache, s), lists[static_cast<std::size_t>(s)]) << "round " << round;
    }
    for (index_t s = 0; s < num_sequences; ++s) cache.truncate_to(s, 0);
    EXPECT_EQ(cache.num_free_pages(), cache.num_pages());
  }
}

TEST(KvCache, RoundsToTheStoredType) {
  Tensor<float, 4> k({1, 1, kHeads, kDim}), v({1, 1, kHeads, kDimV});
  k(0, 0, 1, 2) = 1.0f + 0x1p-8f + 0x1p-12f;
  KvCache brain = KvCache::contiguous(shape_of(1, DType::bf16), 2),
          half = KvCache::contiguous(shape_of(1, DType::f16), 2);
  brain.append(k.view(), v.view());
  half.append(k.view(), v.view());
  EXPECT_EQ(to_float(brain.view().k.as<bf16>()(0, 0, 1, 2)), 1.0f + 0x1p-7f);
  EXPECT_EQ(to_float(half.view().k.as<f16>()(0, 0, 1, 2)), 1.0f + 0x1p-8f);
}

// Attention case 42: a key at position 10, shifted twice, is the key at position 5.
TEST(KvCache, PositionShiftsAddUp) {
  const KvCacheShape shape{1, 1, 2, 2, DType::f64};
  for (const index_t page_size : {1, 4}) {
    KvCache cache = KvCache::paged(shape, page_size, 4);
    const nn::Rope rope({}, 2);
    Tensor<double, 4> k({1, 1, 1, 2}), v({1, 1, 1, 2});
    k(0, 0, 0, 0) = std::cos(10.0);
    k(0, 0, 0, 1) = std::sin(10.0);
    cache.append(k.view(), v.view());
    cache.shift_next_position(0, 10);
    nn::rope_shift(rope, cache, 0, 0, -2);
    nn::rope_shift(rope, cache, 0, 0, -3);
    const auto key = cache.view().k.as<double>();
    EXPECT_NEAR(key(0, 0, 0, 0), 0.283662, 1e-6);
    EXPECT_NEAR(key(0, 0, 0, 1), -0.958924, 1e-6);
    EXPECT_EQ(cache.next_position(0), 6);
    EXPECT_EQ(error_of([&] { nn::rope_shift(rope, cache, 0, 2, 1); }),
              "rope_shift: begin must be in [0, the length], got begin=2, length=1");
  }
}

TEST(KvCache, ShiftLeavesForksAlone) {
  KvCache cache = KvCache::paged(shape_of(2), 2, 6);
  append(cache, {{1, 2, 3}, {}});
  cache.fork(0, 1);
  nn::rope_shift(nn::Rope({.rotary_dim = 2}, kDim), cache, 1, 1, 4);
  EXPECT_EQ(held(cache, 0), (Numbers{1, 2, 3}));
  EXPECT_EQ(cache.next_position(0), 3);
  EXPECT_EQ(cache.next_position(1), 7);
}

TEST(KvCache, RefusesInWords) {
  EXPECT_EQ(error_of([] { KvCache::contiguous(shape_of(1), 0); }),
            "KvCache::contiguous: capacity must be above 0, got capacity=0");
  EXPECT_EQ(error_of([] { KvCache::paged(shape_of(1), 0, 4); }),
            "KvCache::paged: page_size and num_pages must be above 0, got page_size=0, num_pages=4");
  EXPECT_EQ(error_of([] { KvCache::paged(shape_of(1), index_t{1} << 40, index_t{1} << 40); }),
            "KvCache::paged: page_size * num_pages must fit in 63 bits, got page_size=1099511627776, "
            "num_pages=1099511627776");
  EXPECT_EQ(error_of([] { KvCache::ring(shape_of(1), -1, 4); }),
            "KvCache::ring: num_sink_tokens must be 0 or more and window above 0, got num_sink_tokens=-1, window=4");
  EXPECT_EQ(error_of([] { KvCache::ring(shape_of(4), 1, index_t{1} << 62); }),
            "KvCache::ring: all tokens must fit in 63 bits, got num_sink_tokens=1, window=4611686018427387904, "
            "num_sequences=4");
  EXPECT_EQ(error_of([] {
              KvCache::contiguous({1, 0, 4, 4}, 8);
            }),
            "KvCache: num_kv_heads, head_dim and head_dim_v must be above 0, got num_sequences=1, num_kv_heads=0, "
            "head_dim=4, head_dim_v=4");
  EXPECT_EQ(error_of<UnsupportedError>([] { KvCache::contiguous(shape_of(1, DType::i64), 8); }),
            "KvCache: the dtype must be f32, bf16, f16 or f64, got dtype=i64");
  KvCache cache = KvCache::contiguous(shape_of(2), 4);
  EXPECT_EQ(error_of([&] { cache.length(2); }),
            "KvCache::length: the sequence must be one of num_sequences, got sequence=2, num_sequences=2");
  EXPECT_EQ(error_of([&] { cache.truncate_to(0, 1); }),
            "KvCache::truncate_to: the new length must be in [0, the length], got new_length=1, length=0");
  EXPECT_EQ(error_of([&] { cache.writable_key(0, 0); }),
            "KvCache::writable_key: the token must be held, got token=0, length=0");
}

TEST(KvCache, AppendsAllOrNothing) {
  KvCache cache = KvCache::contiguous(shape_of(2), 4);
  append(cache, {{1}, {2, 3, 4}});
  EXPECT_EQ(error_of([&] {
              append(cache, {{5, 6}, {7, 8}});
            }),
            "KvCache::append: the tokens must fit into the cache, got sequence=1, length=3, new_tokens=2, capacity=4");
  EXPECT_EQ(held(cache, 0), (Numbers{1}));
  EXPECT_EQ(held(cache, 1), (Numbers{2, 3, 4}));

  KvCache pages = KvCache::paged(shape_of(2), 2, 4);
  append(pages, {{1, 2, 3}, {4}});
  EXPECT_EQ(error_of([&] {
              append(pages, {{5, 6}, {7, 8}});
            }),
            "KvCache::append: free pages must be enough for the new tokens, got pages_needed=2, pages_free=1, "
            "page_size=2");
  pages.fork(0, 1);
  append(pages, {{}, {9}});  // copies the shared page
  EXPECT_EQ(held(pages, 0), (Numbers{1, 2, 3}));
  EXPECT_EQ(held(pages, 1), (Numbers{1, 2, 3, 9}));

  const NewTokens tokens({{1, 2}, {3, 4}});
  const index_t too_many[2] = {3, 0}, counts[1] = {1};
  EXPECT_EQ(error_of([&] {
              cache.append(tokens.k.view(), tokens.v.view(), {too_many, {2}});
            }),
            "KvCache::append: a count of new tokens must be in [0, seqlen], got sequence=0, count=3, seqlen=2");
  EXPECT_EQ(error_of([&] {
              cache.append(tokens.k.view(), tokens.v.view(), {counts, {1}});
            }),
            "KvCache::append: counts must be [num_sequences], got counts=[1], num_sequences=2");
  EXPECT_EQ(
      error_of([&] { cache.append(tokens.v.view(), tokens.v.view()); }),
      "KvCache::append: k must be [B, S, num_kv_heads, head_dim] and v [B, S, num_kv_heads, head_dim_v], got k=[2, "
      "2, 2, 2], v=[2, 2, 2, 2], num_kv_heads=2, head_dim=3, head_dim_v=2");
  const NewTokens one(std::vector<Numbers>{{1}});
  EXPECT_EQ(error_of([&] { cache.append(one.k.view(), one.v.view()); }),
            "KvCache::append: the batch must be the cache's num_sequences, got batch=1, num_sequences=2");
  const Tensor<double, 4> wide(tokens.k.shape());
  EXPECT_EQ(error_of<UnsupportedError>([&] { cache.append(wide.view(), tokens.v.view()); }),
            "KvCache::append: k and v must be f32, bf16 or f16; f64 in an f64 cache, got k=f64, v=f32, cache=f32");
}

}  // namespace
}  // namespace multihead
