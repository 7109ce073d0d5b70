// The split of a call into tasks, as plain data: which rows are computed against which keys, in which order, and where
// partial results are stored. Planning runs no task and reads no tensor.
//
// The split of a sum depends only on its sequence. The number of workers only determines the order of tasks and how
// many rows or heads one takes, so results are bit-identical for any number of workers.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "attention/problem.hpp"

namespace multihead {

/// What a plan depends on besides the Problem.
struct PlanFacts {
  index_t workers = 1;
  index_t lanes = 1;               // queries of a full tile
  index_t decode_rows = 0;         // most rows per kv head for which decode is used
  index_t element_bytes = 4;       // of the arithmetic type
  bool keeps_probs = false;        // forward: probs are requested
  bool heads_interleaved = false;  // forward: the kv heads of a token are adjacent, in k and v
  bool wants_dq = true;            // backward
};

/// Keys per chunk if the keys of a sequence are split.
inline constexpr index_t kKeysPerChunk = 1024;
static_assert(kKeysPerChunk % (2 * kernels::kKeysPerTile) == 0);  // forward tiles of any target

/// Rows [first_row, first_row + num_rows) of one kv head against keys [key_begin, key_end). A row is a (head of the
/// group, query) pair.
struct ForwardBlock {
  index_t b, g, first_row, num_rows, key_begin, key_end;
  // Offsets of partial results, -1 = none: accumulators [num_rows, Dv] and statistics [num_rows, kStats] of this chunk.
  // Those of the next chunk of the same rows follow directly.
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
  std::vector<ForwardBlock> splits;  // all keys of rows whose chunks are merged in the end
  index_t tiles_per_group = 1;       // query tiles of a group
  index_t partial_size = 0;          // elements of all partial results

  std::span<const ForwardBlock> heads_of(const DecodeTask& task) const {
    return std::span(decode_heads)
        .subspan(static_cast<std::size_t>(task.begin), static_cast<std::size_t>(task.end - task.begin));
  }
};

ForwardPlan plan_forward(const Problem& problem, const HeadGroups& groups, const PlanFacts& facts);

/// Elements of scratch memory that the task with the largest need takes. It calls of_block(const ForwardBlock&),
/// of_decode(std::span<const ForwardBlock>) and of_split for all tasks, as a smaller block may need more than a larger
/// one.
template <class OfBlock, class OfDecode>
index_t workspace_size(const ForwardPlan& plan, const OfBlock& of_block, const OfDecode& of_decode, index_t of_split) {
  index_t size = plan.splits.empty() ? 0 : of_split;
  for (const ForwardBlock& block : plan.blocks) size = std::max(size, of_block(block));
  for (const DecodeTask& task : plan.decodes) size = std::max(size, of_decode(plan.heads_of(task)));
  return size;
}

/// The keys of a kv head are split into at most this many chunks. Each has its own sums for dq, which are then added in
/// the order of chunks.
inline constexpr index_t kMaxGradientChunks = 4;

/// Keys [key_begin, key_end) of one kv head: computes their dk and dv, and their contribution to dq.
struct BackwardTask {
  index_t b, g;
  index_t chunk, num_chunks;  // index and number of chunks of the kv head
  index_t key_begin, key_end;
  index_t dq_begin;   // sums for dq of the kv head, dq_stride elements per chunk
  index_t dq_size;    // elements of the sums of one chunk: whole tiles of rows
  index_t dq_stride;  // dq_size; twice that, for outer sums, if a chunk has more than kKeysPerDqFold keys
};

/// Tasks [begin, end) of BackwardPlan::tasks: all chunks of some kv heads, whose sums for dq exist at the same time.
struct BackwardWave {
  index_t begin, end;
};

struct BackwardPlan {
  std::vector<BackwardTask> tasks;
  std::vector<BackwardWave> waves;
  index_t dq_size = 0;  // elements of the sums for dq of the largest wave
};

BackwardPlan plan_backward(const Problem& problem, const HeadGroups& groups, const PlanFacts& facts);

}  // namespace multihead
