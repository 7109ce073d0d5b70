#include "attention/plan.hpp"

#include "core/ceil_div.hpp"

namespace multihead {
namespace {

// With at most this many rows per kv head, keys of a sequence are split into chunks that run in parallel. The choice
// and the chunks depend only on the sequence, so its results do not depend on the rest of the batch or on threads.
constexpr index_t kFewRows = 16;

// Queries and accumulators of a group of tiles stay in the L2 cache while the keys are streamed: 16 tiles of 24 queries
// at D = 64. Those of a block stay in the L3: rows with a large stride are copied once per block (docs/ladder.md).
constexpr index_t kGroupBytes = 192 * 1024;
constexpr index_t kBlockBytes = 8 * kGroupBytes;
constexpr index_t kMaxTiles = 128;

// Least number of blocks per worker, so that workers finish at about the same time.
constexpr index_t kBlocksPerWorker = 4;

class ForwardPlanner {
 public:
  ForwardPlanner(const Problem& problem, const HeadGroups& groups, const PlanFacts& facts)
      : problem_(problem), groups_(groups), facts_(facts) {}

  ForwardPlan plan() {
    plan_.tiles_per_group = tiles_in(kGroupBytes, facts_.keeps_probs ? problem_.seqlen_kv : 0);
    for (index_t b = 0; b < problem_.batch; ++b) plan_sequence(b);
    if (problem_.batch * problem_.num_kv_heads >= kBlocksPerWorker * facts_.workers) share_out();
    return std::move(plan_);
  }

 private:
  /// Row blocks of one sequence, those with most work first: with a causal mask the last rows see most keys.
  void plan_sequence(index_t b) {
    const Sequence sequence = sequence_of(problem_, b);
    if (sequence.seqlen_q == 0) return;
    std::vector<ForwardBlock> few;
    for (index_t g = 0; g < problem_.num_kv_heads; ++g) {
      const index_t rows = groups_.size(g) * sequence.seqlen_q;
      if (rows == 0) continue;
      ForwardBlock block{b, g, 0, rows, 0, sequence.seqlen_kv};
      const bool many_keys = sequence.seqlen_kv > kKeysPerChunk;
      if (rows <= facts_.decode_rows) {
        if (many_keys) reserve_partial(block);
        few.push_back(block);
      } else if (rows <= kFewRows && many_keys) {
        reserve_partial(block);
        for (index_t key = 0; key < sequence.seqlen_kv; key += kKeysPerChunk) {
          plan_.blocks.push_back(chunk_of(block, key));
        }
      } else {
        const index_t size = rows_per_block(rows);
        for (index_t end = rows; end > 0; end = block.first_row) {
          block.first_row = (end - 1) / size * size;
          block.num_rows = end - block.first_row;
          plan_.blocks.push_back(block);
        }
      }
    }
    plan_decode(few);
  }

  /// kv heads with few rows: a task takes one chunk of keys, and as many heads as leave tasks for all workers.
  void plan_decode(const std::vector<ForwardBlock>& few) {
    if (few.empty()) return;
    const index_t seqlen_kv = few.front().key_end, count = static_cast<index_t>(few.size());
    const index_t per_task = heads_per_decode(count * std::max<index_t>(1, seqlen_kv / kKeysPerChunk));
    for (index_t key = 0; key == 0 || key < seqlen_kv; key += kKeysPerChunk) {
      for (index_t first = 0; first < count; first += per_task) {
        const index_t begin = static_cast<index_t>(plan_.decode_heads.size());
        const index_t end = begin + std::min(per_task, count - first);
        for (index_t n = 0; n < end - begin; ++n) {
          plan_.decode_heads.push_back(chunk_of(few[static_cast<std::size_t>(first + n)], key));
        }
        plan_.decodes.push_back({begin, end});
      }
    }
  }

  /// One head if heads are separate in memory, otherwise several, to read memory in order. Does not affect results.
  index_t heads_per_decode(index_t head_chunks) const {
    if (!facts_.heads_interleaved) return 1;
    const index_t tasks = facts_.workers == 1 ? 1 : kBlocksPerWorker * facts_.workers;
    return std::clamp<index_t>(head_chunks * problem_.batch / tasks, 1, kernels::kMaxDecodeHeads);
  }

  /// Whole tiles, and enough blocks for all workers. Does not affect results.
  index_t rows_per_block(index_t rows) const {
    const index_t tiles = ceil_div(rows, facts_.lanes);
    const index_t wanted = ceil_div(kBlocksPerWorker * facts_.workers, problem_.batch * problem_.num_kv_heads);
    const index_t per_block = facts_.workers == 1 ? tiles : ceil_div(tiles, wanted);
    return std::clamp<index_t>(per_block, 1, tiles_in(kBlockBytes)) * facts_.lanes;
  }

  /// Number of query tiles whose queries, accumulators and probabilities of `kept_keys` keys fit into `bytes`.
  index_t tiles_in(index_t bytes, index_t kept_keys = 0) const {
    const index_t numbers = problem_.head_dim + problem_.head_dim_v + kept_keys;
    const index_t tile_bytes = numbers * facts_.lanes * facts_.element_bytes;
    return std::clamp<index_t>(bytes / tile_bytes, 1, kMaxTiles);
  }

  /// Reserves memory for the partial results of all chunks, which are merged in the end by (6): [chunk, row, feature],
  /// then [chunk, row, statistic].
  void reserve_partial(ForwardBlock& block) {
    const index_t rows = ceil_div(block.key_end, kKeysPerChunk) * block.num_rows;
    block.acc_begin = plan_.partial_size;
    block.stats_begin = block.acc_begin + rows * problem_.head_dim_v;
    plan_.partial_size = block.stats_begin + rows * kernels::kStats;
    plan_.splits.push_back(block);
  }

  /// The chunk of a block that begins at `key`.
  ForwardBlock chunk_of(ForwardBlock block, index_t key) const {
    block.key_end = std::min(block.key_end, key + kKeysPerChunk);
    block.key_begin = key;
    if (block.acc_begin >= 0) {
      const index_t rows = key / kKeysPerChunk * block.num_rows;
      block.acc_begin += rows * problem_.head_dim_v;
      block.stats_begin += rows * kernels::kStats;
    }
    return block;
  }

  /// Orders the blocks so that workers, which take tasks in turn, each get neighbouring heads. Their rows share cache
  /// lines and pages, which then no other worker writes to (docs/ladder.md).
  void share_out() {
    const index_t count = static_cast<index_t>(plan_.blocks.size()), workers = facts_.workers;
    std::vector<ForwardBlock> shared;
    shared.reserve(plan_.blocks.size());
    for (index_t task = 0; task < count; ++task) {
      const index_t worker = task % workers;
      const index_t from = worker * (count / workers) + std::min(worker, count % workers) + task / workers;
      shared.push_back(plan_.blocks[static_cast<std::size_t>(from)]);
    }
    plan_.blocks = std::move(shared);
  }

  const Problem& problem_;
  const HeadGroups& groups_;
  const PlanFacts& facts_;
  ForwardPlan plan_;
};

// Least number of keys of a task of the backward.
constexpr index_t kMinChunkKeys = 256;

// Tasks per worker in a wave: only so many kv heads need memory for their sums of dq at the same time.
constexpr index_t kGradientTasksPerWorker = 4;

}  // namespace

ForwardPlan plan_forward(const Problem& problem, const HeadGroups& groups, const PlanFacts& facts) {
  return ForwardPlanner(problem, groups, facts).plan();
}

BackwardPlan plan_backward(const Problem& problem, const HeadGroups& groups, const PlanFacts& facts) {
  BackwardPlan plan;
  index_t dq_end = 0;  // end of the sums for dq of the wave
  for (index_t n = 0; n < problem.batch * problem.num_kv_heads; ++n) {
    const index_t count = static_cast<index_t>(plan.tasks.size());
    if (n == 0 || count - plan.waves.back().begin >= kGradientTasksPerWorker * facts.workers) {
      plan.waves.push_back({count, count});
      dq_end = 0;
    }
    const index_t b = n / problem.num_kv_heads, g = n % problem.num_kv_heads;
    const Sequence sequence = sequence_of(problem, b);
    const index_t num_chunks = std::clamp<index_t>(ceil_div(sequence.seqlen_kv, kMinChunkKeys), 1, kMaxGradientChunks);
    const index_t tiles = ceil_div(sequence.seqlen_kv, kernels::kKeysPerTile);
    const index_t chunk_keys = std::max<index_t>(ceil_div(tiles, num_chunks), 1) * kernels::kKeysPerTile;
    const index_t dq_size = round_up(groups.size(g) * sequence.seqlen_q, facts.lanes) * problem.head_dim;
    const index_t dq_stride = chunk_keys > kernels::kKeysPerDqFold ? 2 * dq_size : dq_size;
    for (index_t chunk = 0; chunk < num_chunks; ++chunk) {
      const index_t key_begin = std::min(chunk * chunk_keys, sequence.seqlen_kv);
      const index_t key_end = std::min(key_begin + chunk_keys, sequence.seqlen_kv);
      plan.tasks.push_back({b, g, chunk, num_chunks, key_begin, key_end, dq_end, dq_size, dq_stride});
    }
    plan.waves.back().end = static_cast<index_t>(plan.tasks.size());
    if (facts.wants_dq) dq_end += num_chunks * dq_stride;
    plan.dq_size = std::max(plan.dq_size, dq_end);
  }
  return plan;
}

}  // namespace multihead
