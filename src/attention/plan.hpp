// How a call is split into tasks, as plain data: which rows meet which keys, in which order, and where partial results
// lie. Nothing is run here and no tensor is read.
//
// How a sum is cut depends on its sequence alone. The number of workers decides how many rows or heads a task takes and
// the order of tasks, so results have the same bits for any of it.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "attention/problem.hpp"

namespace multihead {

/// What a plan depends on besides the problem.
struct PlanFacts {
  index_t workers = 1;
  index_t lanes = 1;               // queries of a full tile
  index_t decode_rows = 0;         // most rows of a kv head that decode takes
  index_t element_bytes = 4;       // of the arithmetic type
  bool keeps_probs = false;        // forward: probabilities are wanted
  bool heads_interleaved = false;  // forward: the kv heads of a token lie together, in k and in v
  bool wants_dq = true;            // backward
};

/// Keys of a chunk where the keys of a sequence are split.
inline constexpr index_t kKeysPerChunk = 1024;
static_assert(kKeysPerChunk % (2 * kernels::kKeysPerTile) == 0);  // forward tiles of any target

/// Rows [first_row, first_row + num_rows) of one kv head against keys [key_begin, key_end). A row is a (head of the
/// group, query) pair.
struct ForwardBlock {
  index_t b, g, first_row, num_rows, key_begin, key_end;
  // Where partial results begin, -1 = none: accumulators [num_rows, Dv] and statistics [num_rows, kStats] of this
  // chunk. The next chunk of the same rows follows at once.
  index_t acc_begin = -1, stats_begin = -1;
};

/// Heads [begin, end) of ForwardPlan::decode_heads: kv heads of one sequence against the same keys.
struct DecodeTask {
  index_t begin, end;
};

/// Tasks run in this order: all decodes, all blocks, all splits.
struct ForwardPlan {
  std::vector<ForwardBlock> decode_heads;
  std::vector<DecodeTask> decodes;
  std::vector<ForwardBlock> blocks;
  std::vector<ForwardBlock> splits;  // all keys of rows whose chunks are joined in the end
  index_t tiles_per_group = 1;       // query tiles that pass over the keys of a segment together
  index_t partial_size = 0;          // elements of all partial results

  std::span<const ForwardBlock> heads_of(const DecodeTask& task) const {
    return std::span(decode_heads)
        .subspan(static_cast<std::size_t>(task.begin), static_cast<std::size_t>(task.end - task.begin));
  }
};

ForwardPlan plan_forward(const Problem& problem, const HeadGroups& groups, const PlanFacts& facts);

/// Elements of scratch memory that the task which needs most of it needs. A smaller block may need more than a larger
/// one, so all are asked: of_block(const ForwardBlock&), of_decode(std::span<const ForwardBlock>), and of_split for
/// each split.
template <class OfBlock, class OfDecode>
index_t workspace_size(const ForwardPlan& plan, const OfBlock& of_block, const OfDecode& of_decode, index_t of_split) {
  index_t size = plan.splits.empty() ? 0 : of_split;
  for (const ForwardBlock& block : plan.blocks) size = std::max(size, of_block(block));
  for (const DecodeTask& task : plan.decodes) size = std::max(size, of_decode(plan.heads_of(task)));
  return size;
}

/// The keys of a kv head are cut into at most this many chunks, each with its own sums for dq, which are then added in
/// order.
inline constexpr index_t kMaxGradientChunks = 4;

/// Keys [key_begin, key_end) of one kv head: their dk and dv, and their share of dq.
struct BackwardTask {
  index_t b, g;
  index_t chunk, num_chunks;  // of the kv head
  index_t key_begin, key_end;
  index_t dq_begin;   // sums for dq of the kv head, dq_stride elements per chunk
  index_t dq_size;    // elements of one chunk's sums: whole tiles of the kv head's rows
  index_t dq_stride;  // the sums, and as many outer ones where a chunk has more than kKeysPerDqFold keys
};

/// Tasks [begin, end) of BackwardPlan::tasks: all chunks of some kv heads, whose sums for dq are held at once.
struct BackwardWave {
  index_t begin, end;
};

struct BackwardPlan {
  std::vector<BackwardTask> tasks;
  std::vector<BackwardWave> waves;
  index_t dq_size = 0;  // elements of the sums for dq of the wave that has most
};

BackwardPlan plan_backward(const Problem& problem, const HeadGroups& groups, const PlanFacts& facts);

}  // namespace multihead
