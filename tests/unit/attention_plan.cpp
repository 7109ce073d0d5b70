// Plans as data: each row meets each key once, partial results have a place each, and the number of workers decides
// nothing but who does what.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "attention/plan.hpp"
#include "support/random.hpp"

namespace multihead::test {
namespace {

using Rows = std::tuple<index_t, index_t>;  // b, g

/// A problem of random extents around the borders of the plan: few rows, many keys, none of either.
struct Case {
  AttentionOptions options;
  Problem problem;
  Tensor<index_t, 1> seqlen_q, seqlen_kv, kv_head_of;
  PlanFacts facts;

  explicit Case(Random& random) {
    problem.options = &options;
    problem.batch = random.integer(0, 3);
    problem.num_kv_heads = random.integer(1, 4);
    problem.num_heads = problem.num_kv_heads * random.integer(1, 3);
    problem.head_dim = random.integer(1, 200);
    problem.head_dim_v = random.integer(1, 200);
    problem.seqlen_q = random.pick(std::vector<index_t>{0, 1, 2, 5, 16, 17, 100, 3000});
    problem.seqlen_kv = random.pick(std::vector<index_t>{0, 1, 255, 257, 1024, 1025, 5000});
    if (random.chance(0.5)) {
      seqlen_q = lengths(random, problem.seqlen_q);
      seqlen_kv = lengths(random, problem.seqlen_kv);
      options.mask.seqlen_q = seqlen_q.view();
      options.mask.seqlen_kv = seqlen_kv.view();
    }
    if (random.chance(0.3)) {
      kv_head_of = Tensor<index_t, 1>({problem.num_heads});
      for (index_t h = 0; h < problem.num_heads; ++h) kv_head_of(h) = random.integer(0, problem.num_kv_heads - 1);
      options.kv_head_of = kv_head_of.view();
    }
    facts.lanes = random.pick(std::vector<index_t>{1, 12, 24, 48});
    facts.decode_rows = random.integer(0, 8);
    facts.element_bytes = random.pick(std::vector<index_t>{4, 8});
    facts.keeps_probs = random.chance(0.5);
    facts.heads_interleaved = random.chance(0.5);
    facts.workers = random.pick(std::vector<index_t>{1, 2, 3, 7, 64});
  }
  Case(const Case&) = delete;

  Tensor<index_t, 1> lengths(Random& random, index_t most) const {
    Tensor<index_t, 1> result({problem.batch});
    for (index_t b = 0; b < problem.batch; ++b) result(b) = random.integer(0, most);
    return result;
  }

  HeadGroups groups() const { return HeadGroups(problem); }
  index_t num_rows(index_t b, index_t g) const { return groups().size(g) * sequence_of(problem, b).seqlen_q; }
  index_t num_keys(index_t b) const { return sequence_of(problem, b).seqlen_kv; }
  ForwardPlan forward() const { return plan_forward(problem, groups(), facts); }
  BackwardPlan backward() const { return plan_backward(problem, groups(), facts); }
};

template <class Check>
void for_random_cases(Check check) {
  Random random(run_seed());
  for (int n = 0; n < 300 && !testing::Test::HasFailure(); ++n) {
    SCOPED_TRACE("case " + std::to_string(n));
    check(Case(random));
  }
}

/// All blocks of a plan that read keys, those of decodes as well.
std::vector<ForwardBlock> all_blocks(const ForwardPlan& plan) {
  std::vector<ForwardBlock> blocks = plan.blocks;
  for (const DecodeTask& task : plan.decodes) {
    const auto heads = plan.heads_of(task);
    blocks.insert(blocks.end(), heads.begin(), heads.end());
  }
  return blocks;
}

/// The key ranges that each row of each (b, g) meets, in order of keys.
using KeyRanges = std::map<Rows, std::vector<std::vector<std::pair<index_t, index_t>>>>;

KeyRanges key_ranges(const Case& c, const ForwardPlan& plan) {
  KeyRanges ranges;
  for (index_t b = 0; b < c.problem.batch; ++b) {
    for (index_t g = 0; g < c.problem.num_kv_heads; ++g) {
      ranges[{b, g}].resize(static_cast<std::size_t>(c.num_rows(b, g)));
    }
  }
  for (const ForwardBlock& block : all_blocks(plan)) {
    for (index_t row = block.first_row; row < block.first_row + block.num_rows; ++row) {
      ranges[{block.b, block.g}].at(static_cast<std::size_t>(row)).emplace_back(block.key_begin, block.key_end);
    }
  }
  for (auto& [rows, of_rows] : ranges) {
    for (auto& of_row : of_rows) std::sort(of_row.begin(), of_row.end());
  }
  return ranges;
}

TEST(ForwardPlan, EachRowMeetsEachKeyOnce) {
  for_random_cases([](const Case& c) {
    for (const auto& [rows, of_rows] : key_ranges(c, c.forward())) {
      for (const auto& of_row : of_rows) {
        index_t key = 0;
        for (const auto& [begin, end] : of_row) {
          EXPECT_EQ(begin, key);
          EXPECT_EQ(begin % kernels::kKeysPerTile, 0);
          key = end;
        }
        ASSERT_FALSE(of_row.empty()) << "a row without keys is written as well";
        EXPECT_EQ(key, c.num_keys(std::get<0>(rows)));
      }
    }
  });
}

// How sums are cut depends on the sequence alone: not on workers, and not on batch mates.
TEST(ForwardPlan, SumsAreCutAlikeForAnyWorkersAndBatchMates) {
  for_random_cases([](const Case& c) {
    const KeyRanges ranges = key_ranges(c, c.forward());
    PlanFacts others = c.facts;
    for (others.workers = 1; others.workers <= 9; others.workers += 2) {
      const ForwardPlan plan = plan_forward(c.problem, c.groups(), others);
      EXPECT_EQ(key_ranges(c, plan), ranges);
      EXPECT_EQ(plan.tiles_per_group, c.forward().tiles_per_group);
    }
    if (c.options.mask.seqlen_q || c.problem.batch == 0) return;
    Problem alone = c.problem;
    alone.batch = 1;
    for (const ForwardBlock& block : all_blocks(plan_forward(alone, c.groups(), c.facts))) {
      const auto& of_row = ranges.at({c.problem.batch - 1, block.g}).at(static_cast<std::size_t>(block.first_row));
      EXPECT_EQ(std::count(of_row.begin(), of_row.end(), std::pair(block.key_begin, block.key_end)), 1);
    }
  });
}

TEST(ForwardPlan, BlocksAreWholeTiles) {
  for_random_cases([](const Case& c) {
    for (const ForwardBlock& block : c.forward().blocks) {
      EXPECT_EQ(block.first_row % c.facts.lanes, 0);
      const index_t end = block.first_row + block.num_rows;
      EXPECT_TRUE(end % c.facts.lanes == 0 || end == c.num_rows(block.b, block.g));
    }
  });
}

// Under a causal mask the last rows of a kv head see most keys; tasks n, n + workers, .. are one worker's.
TEST(ForwardPlan, EachWorkerMeetsTheHeaviestBlockOfAHeadFirst) {
  for_random_cases([](const Case& c) {
    const std::vector<ForwardBlock> blocks = c.forward().blocks;
    const auto workers = static_cast<std::size_t>(c.facts.workers);
    for (std::size_t n = 0; n + workers < blocks.size(); ++n) {
      const ForwardBlock &now = blocks[n], &next = blocks[n + workers];
      if (now.b != next.b || now.g != next.g || now.acc_begin >= 0) continue;
      EXPECT_GT(now.first_row, next.first_row);
    }
  });
}

/// f32, 12 heads in 2 sequences of as many rows each as said.
std::vector<ForwardBlock> blocks_of(index_t num_rows, index_t workers) {
  AttentionOptions options;
  Problem problem;
  problem.options = &options;
  problem.batch = 2;
  problem.num_heads = problem.num_kv_heads = 6;
  problem.head_dim = problem.head_dim_v = 64;
  problem.seqlen_q = problem.seqlen_kv = num_rows;
  return plan_forward(problem, HeadGroups(problem), {.workers = workers, .lanes = 24}).blocks;
}

TEST(ForwardPlan, WorkersGetNeighbouringHeadsWhereThereAreEnough) {
  std::vector<index_t> heads;
  for (const ForwardBlock& block : blocks_of(20, 3)) heads.push_back(block.b * 6 + block.g);
  EXPECT_EQ(heads, (std::vector<index_t>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
}

TEST(ForwardPlan, WorkersGetFourBlocksEachWhereThereAreRows) {
  EXPECT_EQ(blocks_of(768, 1).size(), 12u);
  EXPECT_EQ(blocks_of(768, 3).size(), 12u);
  EXPECT_EQ(blocks_of(768, 6).size(), 24u);
  EXPECT_EQ(blocks_of(768, 12).size(), 48u);
  EXPECT_EQ(blocks_of(768, 1000).size(), 12u * 768 / 24);
}

TEST(ForwardPlan, DecodesTakeFewHeadsOfOneSequenceAndOneRangeOfKeys) {
  for_random_cases([](const Case& c) {
    const ForwardPlan plan = c.forward();
    index_t end = 0;
    for (const DecodeTask& task : plan.decodes) {
      EXPECT_EQ(task.begin, end);
      end = task.end;
      const auto heads = plan.heads_of(task);
      ASSERT_FALSE(heads.empty());
      EXPECT_LE(heads.size(), static_cast<std::size_t>(c.facts.heads_interleaved ? kernels::kMaxDecodeHeads : 1));
      for (const ForwardBlock& head : heads) {
        EXPECT_EQ(head.b, heads[0].b);
        EXPECT_EQ(head.key_begin, heads[0].key_begin);
        EXPECT_EQ(head.key_end, heads[0].key_end);
        EXPECT_LE(head.num_rows, c.facts.decode_rows);
        EXPECT_EQ(head.num_rows, c.num_rows(head.b, head.g));
      }
    }
    EXPECT_EQ(end, static_cast<index_t>(plan.decode_heads.size()));
    for (const ForwardBlock& block : plan.blocks) {
      EXPECT_GT(c.num_rows(block.b, block.g), c.facts.decode_rows) << "few rows are for decode";
    }
  });
}

// Chunks of a split write to places of their own that fill partial_size, and one join reads them in order.
TEST(ForwardPlan, PartialResultsHaveAPlaceEach) {
  for_random_cases([](const Case& c) {
    const ForwardPlan plan = c.forward();
    std::vector<int> writers(static_cast<std::size_t>(plan.partial_size));
    const auto write = [&](index_t begin, index_t size) {
      for (index_t n = begin; n < begin + size; ++n) ++writers.at(static_cast<std::size_t>(n));
    };
    std::map<Rows, ForwardBlock> splits;
    for (const ForwardBlock& split : plan.splits) {
      EXPECT_TRUE(splits.emplace(Rows{split.b, split.g}, split).second);
      EXPECT_EQ(split.num_rows, c.num_rows(split.b, split.g));
      EXPECT_EQ(split.key_begin, 0);
      EXPECT_EQ(split.key_end, c.num_keys(split.b));
    }
    for (const ForwardBlock& block : all_blocks(plan)) {
      const auto split = splits.find({block.b, block.g});
      EXPECT_EQ(block.acc_begin >= 0, split != splits.end());
      EXPECT_EQ(block.stats_begin >= 0, split != splits.end());
      EXPECT_EQ(split == splits.end(), block.key_begin == 0 && block.key_end == c.num_keys(block.b));
      if (split == splits.end()) continue;
      const index_t chunk = block.key_begin / kKeysPerChunk;
      EXPECT_EQ(block.acc_begin, split->second.acc_begin + chunk * block.num_rows * c.problem.head_dim_v);
      EXPECT_EQ(block.stats_begin, split->second.stats_begin + chunk * block.num_rows * kernels::kStats);
      write(block.acc_begin, block.num_rows * c.problem.head_dim_v);
      write(block.stats_begin, block.num_rows * kernels::kStats);
    }
    EXPECT_EQ(std::count(writers.begin(), writers.end(), 1), plan.partial_size);
  });
}

// A task that is smaller may need more memory than a larger one: each counts, whatever its place.
TEST(ForwardPlan, TheWorkspaceIsThatOfTheTaskThatNeedsMost) {
  for_random_cases([](const Case& c) {
    const ForwardPlan plan = c.forward();
    const index_t num_tasks = static_cast<index_t>(plan.blocks.size() + plan.decodes.size());
    for (index_t most = 0; most < num_tasks; ++most) {
      index_t asked = 0;
      const auto need = [&](const auto&) { return asked++ == most ? 1000 : index_t{7}; };
      EXPECT_EQ(workspace_size(plan, need, need, 1), 1000);
      EXPECT_EQ(asked, num_tasks);
    }
    const auto nothing = [](const auto&) { return index_t{0}; };
    EXPECT_EQ(workspace_size(plan, nothing, nothing, 5), plan.splits.empty() ? 0 : 5);
  });
}

TEST(BackwardPlan, MeetsEachKeyOnce) {
  for_random_cases([](const Case& c) {
    const BackwardPlan plan = c.backward();
    std::map<Rows, index_t> next_key, next_chunk;
    for (const BackwardTask& task : plan.tasks) {
      EXPECT_EQ(task.key_begin, (next_key[{task.b, task.g}]));
      EXPECT_EQ(task.chunk, (next_chunk[{task.b, task.g}]));
      EXPECT_TRUE(task.key_begin % kernels::kKeysPerTile == 0 || task.key_begin == task.key_end);
      EXPECT_LE(task.num_chunks, kMaxGradientChunks);
      next_key[{task.b, task.g}] = task.key_end;
      const bool last = ++next_chunk[{task.b, task.g}] == task.num_chunks;
      EXPECT_TRUE(!last || task.key_end == c.num_keys(task.b));
    }
    EXPECT_EQ(next_key.size(), static_cast<std::size_t>(c.problem.batch * c.problem.num_kv_heads));
    for (const BackwardTask& task : plan.tasks) EXPECT_EQ((next_chunk[{task.b, task.g}]), task.num_chunks);
  });
}

TEST(BackwardPlan, SumsAreCutAlikeForAnyWorkers) {
  for_random_cases([](const Case& c) {
    const auto cut = [](const BackwardPlan& plan) {
      std::vector<std::tuple<index_t, index_t, index_t, index_t, index_t>> tasks;
      for (const BackwardTask& t : plan.tasks) tasks.emplace_back(t.b, t.g, t.key_begin, t.key_end, t.dq_size);
      return tasks;
    };
    PlanFacts others = c.facts;
    for (others.workers = 1; others.workers <= 9; others.workers += 2) {
      EXPECT_EQ(cut(plan_backward(c.problem, c.groups(), others)), cut(c.backward()));
    }
  });
}

// Waves hold whole kv heads, keep all workers busy, and the sums for dq that a wave holds at once lie side by side.
TEST(BackwardPlan, WavesHoldWholeHeadsAndTheirSumsForDq) {
  for_random_cases([](const Case& c) {
    const BackwardPlan plan = c.backward();
    index_t task = 0, most = 0;
    for (const BackwardWave& wave : plan.waves) {
      EXPECT_EQ(wave.begin, task);
      index_t dq_end = 0, heads = 0;
      for (task = wave.begin; task < wave.end; task += plan.tasks[static_cast<std::size_t>(task)].num_chunks) {
        const BackwardTask& first = plan.tasks[static_cast<std::size_t>(task)];
        EXPECT_EQ(first.chunk, 0);
        EXPECT_LE(task + first.num_chunks, wave.end);
        EXPECT_EQ(first.dq_begin, dq_end);
        EXPECT_GE(first.dq_size, c.num_rows(first.b, first.g) * c.problem.head_dim);
        EXPECT_EQ(first.dq_size % (c.facts.lanes * c.problem.head_dim), 0);
        dq_end += first.num_chunks * first.dq_size;
        ++heads;
      }
      EXPECT_TRUE(wave.end - wave.begin >= 4 * c.facts.workers || wave.end == static_cast<index_t>(plan.tasks.size()));
      EXPECT_LE(heads, 4 * c.facts.workers);
      most = std::max(most, dq_end);
    }
    EXPECT_EQ(task, static_cast<index_t>(plan.tasks.size()));
    EXPECT_EQ(plan.dq_size, most);
    PlanFacts without = c.facts;
    without.wants_dq = false;
    EXPECT_EQ(plan_backward(c.problem, c.groups(), without).dq_size, 0);
  });
}

}  // namespace
}  // namespace multihead::test
