// Every option beside every other: all pairs of option values, dtypes, layouts and shapes, forward and backward,
// against the reference. MULTIHEAD_SWEEP_ROUNDS=n makes n times as many; MULTIHEAD_TEST_SEED repeats a run.
#include <gtest/gtest.h>

#include <cstdlib>

#include "multihead/threads.hpp"
#include "tests/support/all_pairs.hpp"
#include "tests/support/error_rule.hpp"

namespace multihead::test {
namespace {

using std::vector;

/// One factor of the sweep: how many levels it has, and what a level sets.
struct Factor {
  int num_levels;
  std::function<void(AttentionConfig&, int level, Random&)> apply;
};

template <class Value>
Factor factor(vector<Value> levels, std::function<void(AttentionConfig&, const Value&)> set) {
  return {static_cast<int>(levels.size()), [levels, set](AttentionConfig& config, int level, Random&) {
            const Value value = levels[static_cast<std::size_t>(level)];
            set(config, value);
          }};
}

template <class Enum>
vector<Enum> up_to(Enum last) {
  vector<Enum> all;
  for (int n = 0; n <= static_cast<int>(last); ++n) all.push_back(static_cast<Enum>(n));
  return all;
}

// Lengths around the edges of tiles: 24 and 48 query lanes, key tiles of 64 and 128, chunks of 1024 keys; and primes.
struct Lengths2 {
  vector<index_t> queries, keys;
};
const vector<Lengths2> kShapes{
    {{1}, {1, 7, 64, 129, 1023, 1024, 1025, 2049}},              // decode
    {{2, 3, 5, 7}, {1, 31, 63, 65, 128, 257, 1025}},             // a few queries at the end of a cache
    {{1, 2, 3, 7, 11}, {1, 2, 3, 5, 13}},                        // small
    {{23, 24, 25, 31}, {63, 64, 65, 127}},                       // one tile of queries
    {{47, 48, 49, 53}, {33, 64, 128, 129, 131}},                 // two tiles, or one wide one
    {{63, 64, 65, 97, 127, 128, 129, 131}, {1, 2, 24, 48, 65}},  // more queries than keys
    {{96, 101, 129}, {127, 128, 129, 131, 193, 257}},            // several tiles of both
    {{0, 1, 5}, {0, 1, 3}},                                      // nothing at all
};
const vector<vector<index_t>> kWidths{{1, 2, 3}, {7, 8, 9},     {16, 24, 32}, {63, 64, 65},
                                      {64},      {80, 96, 128}, {257, 320}};

vector<Factor> factors() {
  using C = AttentionConfig;
  using Window = std::pair<std::optional<index_t>, std::optional<index_t>>;
  return {
      {static_cast<int>(kShapes.size()),
       [](C& c, int level, Random& random) {
         c.seqlen_q = random.pick(kShapes[static_cast<std::size_t>(level)].queries);
         c.seqlen_kv = random.pick(kShapes[static_cast<std::size_t>(level)].keys);
       }},
      {static_cast<int>(kWidths.size()),
       [](C& c, int level, Random& random) { c.head_dim = random.pick(kWidths[static_cast<std::size_t>(level)]); }},
      {static_cast<int>(kWidths.size()),
       [](C& c, int level, Random& random) { c.head_dim_v = random.pick(kWidths[static_cast<std::size_t>(level)]); }},
      factor<index_t>({1, 2, 3, 4}, [](C& c, auto v) { c.num_heads = v; }),
      factor<index_t>({1, 2, 3}, [](C& c, auto v) { c.batch = v; }),
      factor<DType>({DType::f32, DType::f64, DType::bf16, DType::f16}, [](C& c, auto v) { c.dtype = v; }),
      factor<Mixture>(up_to(Mixture::f32_cache), [](C& c, auto v) { c.mixture = v; }),
      factor<Arrangement>(up_to(Arrangement::paged), [](C& c, auto v) { c.arrangement = v; }),
      factor<Values>(up_to(Values::peaked), [](C& c, auto v) { c.values = v; }),
      factor<Scale>(up_to(Scale::large), [](C& c, auto v) { c.scale = v; }),
      factor<std::optional<double>>({{}, 0.8, 30.0}, [](C& c, auto v) { c.softcap = v; }),
      factor<Bias>(up_to(Bias::lowest), [](C& c, auto v) { c.bias = v; }),
      factor<DType>({DType::f32, DType::bf16, DType::f16}, [](C& c, auto v) { c.bias_dtype = v; }),
      factor<bool>({false, true}, [](C& c, auto v) { c.alibi = v; }),
      factor<Causal>(up_to(Causal::at_offset), [](C& c, auto v) { c.causal = v; }),
      factor<Offsets>(up_to(Offsets::given), [](C& c, auto v) { c.offsets = v; }),
      factor<Window>({{}, {0, {}}, {3, {}}, {{}, 2}, {40, 0}, {5, 100}},
                     [](C& c, auto v) { c.window_left = v.first, c.window_right = v.second; }),
      factor<Visible>(up_to(Visible::per_key), [](C& c, auto v) { c.visible = v; }),
      factor<Lengths>(up_to(Lengths::q_and_kv), [](C& c, auto v) { c.lengths = v; }),
      factor<Sinks>(up_to(Sinks::some_infinite), [](C& c, auto v) { c.sinks = v; }),
      factor<double>({0.0, 0.3, 1.0}, [](C& c, auto v) { c.dropout = v; }),
      factor<KvHeads>(up_to(KvHeads::mapped), [](C& c, auto v) { c.kv_heads = v; }),
      factor<Probs>(up_to(Probs::heads_and_rows), [](C& c, auto v) { c.probs = v; }),
      factor<bool>({false, true}, [](C& c, auto v) { c.dlse = v; }),
  };
}

/// The reference's loops are slow: keeps a problem under some 4 million products.
void shrink(AttentionConfig& config) {
  const auto products = [&] {
    return config.batch * config.num_heads * config.seqlen_q * config.seqlen_kv * (config.head_dim + config.head_dim_v);
  };
  const index_t most = config.dtype == DType::f64 ? 2'000'000 : 4'000'000;
  while (products() > most && config.batch > 1) --config.batch;
  while (products() > most && config.num_heads > 2) --config.num_heads;
  while (products() > most && config.head_dim_v > 9) config.head_dim_v /= 2;
  while (products() > most && config.head_dim > 9) config.head_dim /= 2;
}

int rounds() {
  const char* const given = std::getenv("MULTIHEAD_SWEEP_ROUNDS");
  return given != nullptr ? std::max(1, std::atoi(given)) : 1;
}

void sweep(std::uint64_t part) {
  const vector<Factor> all = factors();
  vector<int> num_levels;
  for (const Factor& one : all) num_levels.push_back(one.num_levels);
  Threads two(2), five(5);
  const vector<Executor*> executors{nullptr, &two, &five};
  int count = 0;
  for (int round = 0; round < rounds(); ++round) {
    Random random(run_seed() + 1000 * part + static_cast<std::uint64_t>(round));
    for (const vector<int>& row : all_pairs(num_levels, random)) {
      AttentionConfig config;
      for (std::size_t f = 0; f < all.size(); ++f) all[f].apply(config, row[f], random);
      shrink(config);
      AttentionProblem problem(config, random.bits());
      problem.threads = random.pick(executors);
      ASSERT_NO_THROW(expect_core_exact(problem)) << problem.config.text();
      ++count;
    }
  }
  testing::Test::RecordProperty("combinations", count);
}

TEST(AttentionSweep, AllPairsFirst) { sweep(1); }
TEST(AttentionSweep, AllPairsSecond) { sweep(2); }
TEST(AttentionSweep, AllPairsThird) { sweep(3); }
TEST(AttentionSweep, AllPairsFourth) { sweep(4); }

}  // namespace
}  // namespace multihead::test
