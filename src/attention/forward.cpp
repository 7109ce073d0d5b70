// attention_forward: checks, the split into blocks, and the calls of the kernels.

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "attention/problem.hpp"
#include "attention/workspace.hpp"
#include "core/require.hpp"

namespace multihead {
namespace {

constexpr const char* kName = "attention_forward";

// A sequence with this few rows a kv head splits its keys into chunks that run in parallel. The choice and the chunks
// depend on the sequence alone, so that its bits never depend on batch mates or threads.
constexpr index_t kFewRows = 16;
constexpr index_t kKeysPerChunk = 1024;
static_assert(kKeysPerChunk % (2 * kernels::kKeysPerTile) == 0);

// Queries and accumulators of a group of tiles stay in the L2 while keys pass: 16 tiles of 24 queries at D = 64. Those
// of a block stay in the L3: rows that lie far apart are brought near once for all its groups (docs/performance.md).
constexpr index_t kGroupBytes = 192 * 1024;
constexpr index_t kBlockBytes = 8 * kGroupBytes;
constexpr index_t kMaxTiles = 128;

// Blocks a worker should get at least, so that the last ones to run even out.
constexpr index_t kBlocksPerWorker = 4;

// Inputs up to this size are near by themselves; asking for the rows of the next block then costs 2 % and wins nothing.
// Beyond it is worth 3 to 6 % where sequences are short.
constexpr index_t kNearBytes = 1536 * 1024;

index_t bytes_of(const InputView<4>& view) {
  return view.shape[0] * view.shape[1] * view.shape[2] * view.shape[3] * dtype_bytes(view.dtype);
}

/// Output slot of each head or query, -1 for those that were not chosen.
Tensor<index_t, 1> slots(const TensorView<const index_t, 1>& chosen, index_t count) {
  Tensor<index_t, 1> slot({count});
  std::fill_n(slot.data(), count, index_t{-1});
  for (index_t n = 0; n < chosen.shape(0); ++n) slot(chosen(n)) = n;
  return slot;
}

void check_selection(const char* name, const TensorView<const index_t, 1>& chosen, index_t count) {
  if (!chosen) return;
  std::vector<bool> seen(static_cast<std::size_t>(count));
  for (index_t n = 0; n < chosen.shape(0); ++n) {
    const index_t index = chosen(n);
    require(index >= 0 && index < count, kName, Rule("probs.", name, " must lie in [0, extent)"),
            {{"entry", n}, {"value", index}, {"extent", count}});
    require(!seen[static_cast<std::size_t>(index)], kName, Rule("probs.", name, " must be distinct"),
            {{"entry", n}, {"value", index}});
    seen[static_cast<std::size_t>(index)] = true;
  }
}

void check_outputs(const Problem& p, const AttentionInput& input, const AttentionOutput& output) {
  require(bool(output.out), kName, "out must be given", {{"out", "absent"}});
  const index_t batch = p.packed ? 1 : p.batch;
  check_tokens(kName, "out", output.out, batch, p.tokens_q, p.num_heads, p.head_dim_v,
               p.packed ? "[1, total_q, H, Dv]" : "[B, Sq, H, Dv]", p.f64);
  check_writable(kName, "out", output.out.shape.data(), output.out.stride.data(), 4);
  check_row_values(kName, "row_max", output.row_max, p);
  check_row_values(kName, "row_sum", output.row_sum, p);
  check_row_values(kName, "lse", output.lse, p);
  for (const auto& [name, view] :
       {std::pair{"row_max", &output.row_max}, {"row_sum", &output.row_sum}, {"lse", &output.lse}}) {
    check_writable(kName, name, view->shape.data(), view->stride.data(), 3);
  }
  for (const InputView<4>* in : {&input.q, &input.k, &input.v}) {
    const bool same = output.out.data == in->data && p.batch > 0 && p.tokens_q > 0 && p.tokens_kv > 0;
    require(!same, kName, "out must not overlap the input", {{"out", "the buffer of q, k or v"}});
  }
  const ProbsSelection& selection = p.options->probs;
  check_selection("heads", selection.heads, p.num_heads);
  check_selection("rows", selection.rows, p.seqlen_q);
  if (!output.probs) return;
  const DType wanted = p.f64 ? DType::f64 : DType::f32;
  require<UnsupportedError>(output.probs.dtype == wanted, kName, Rule("probs must be ", dtype_name(wanted)),
                            {{"probs", output.probs.dtype}});
  const index_t shape[4] = {p.batch, selection.heads ? selection.heads.shape(0) : p.num_heads,
                            selection.rows ? selection.rows.shape(0) : p.seqlen_q, p.seqlen_kv};
  require(std::equal(shape, shape + 4, output.probs.shape.begin()), kName,
          "probs must be [B, heads, rows, Skv] of the selection",
          {{"probs", Extents(output.probs.shape.data(), 4)}, {"wanted", Extents(shape, 4)}});
  require(output.probs.shape[3] == 1 || output.probs.stride[3] == 1, kName, "the last axis must be contiguous",
          {{"tensor", "probs"}, {"stride", output.probs.stride[3]}});
  check_writable(kName, "probs", output.probs.shape.data(), output.probs.stride.data(), 4);
}

/// One call for one arithmetic type.
template <class T>
class Forward {
 public:
  Forward(const Problem& problem, const AttentionInput& input, const AttentionOutput& output)
      : problem_(problem),
        input_(input),
        output_(output),
        options_(*problem.options),
        groups_(problem),
        kernels_(kernels::table<T>()),
        workers_(num_workers(options_.threads)) {
    if (options_.probs.heads) probs_head_ = slots(options_.probs.heads, problem.num_heads);
    if (options_.probs.rows) probs_query_ = slots(options_.probs.rows, problem.seqlen_q);
  }

  void run() {
    for (index_t b = 0; b < problem_.batch; ++b) plan_sequence(b);
    const Workspace<T> workspace(workers_, workspace_size());
    const Workspace<T> partial(1, partial_size_);
    run_tasks(options_.threads, static_cast<index_t>(decodes_.size()), [&](index_t index, int worker) {
      const std::vector<kernels::ForwardArgs<T>> heads =
          heads_of(decodes_[static_cast<std::size_t>(index)], partial.part(0));
      kernels_.decode({heads.data(), static_cast<index_t>(heads.size()), workspace.part(worker)});
    });
    const bool far = bytes_of(input_.q) + bytes_of(input_.k) + bytes_of(input_.v) > kNearBytes;
    run_tasks(options_.threads, static_cast<index_t>(blocks_.size()), [&](index_t index, int worker) {
      kernels::ForwardArgs<T> args = args_of(block_of(index), partial.part(0)), upcoming;
      if (far && index + workers_ < static_cast<index_t>(blocks_.size())) {
        upcoming = args_of(block_of(index + workers_), nullptr);
        args.upcoming = &upcoming;
      }
      args.workspace = workspace.part(worker);
      kernels_.forward_block(args);
    });
    run_tasks(options_.threads, static_cast<index_t>(splits_.size()), [&](index_t index, int worker) {
      const Block& all = splits_[static_cast<std::size_t>(index)];
      kernels::CombineArgs<T> combine;
      combine.block = args_of(all, partial.part(0));
      combine.partial_acc = combine.block.partial_acc;
      combine.partial_stats = combine.block.partial_stats;
      combine.block.workspace = workspace.part(worker);
      combine.num_chunks = (all.key_end + kKeysPerChunk - 1) / kKeysPerChunk;
      combine.keys_per_chunk = kKeysPerChunk;
      kernels_.combine_chunks(combine);
    });
    for (index_t b = 0; b < problem_.batch; ++b) write_absent_rows(b);
  }

 private:
  struct Block {
    index_t b, g, first_row, num_rows, key_begin, key_end;
    index_t partial_begin = -1;  // where its partial results go; -1 = none
  };

  /// The block of a task. Workers take tasks in turn; where there are heads for all of them each gets neighbouring
  /// heads: their rows share lines and pages that no other worker writes to (docs/performance.md).
  const Block& block_of(index_t task) const {
    const auto count = static_cast<index_t>(blocks_.size());
    if (problem_.batch * problem_.num_kv_heads >= kBlocksPerWorker * workers_) {
      const index_t worker = task % workers_;
      task = worker * (count / workers_) + std::min(worker, count % workers_) + task / workers_;
    }
    return blocks_[static_cast<std::size_t>(task)];
  }

  /// Row blocks of one sequence, heaviest first: under a causal mask the last rows see most keys.
  void plan_sequence(index_t b) {
    const Sequence sequence = sequence_of(problem_, b);
    if (sequence.seqlen_q == 0) return;
    std::vector<Block> few;
    for (index_t g = 0; g < problem_.num_kv_heads; ++g) {
      const index_t rows = groups_.size(g) * sequence.seqlen_q;
      if (rows == 0) continue;
      Block block{b, g, 0, rows, 0, sequence.seqlen_kv};
      if (rows <= kernels_.decode_rows) {
        if (sequence.seqlen_kv > kKeysPerChunk) reserve_partial(block);
        few.push_back(block);
        continue;
      }
      if (rows <= kFewRows && sequence.seqlen_kv > kKeysPerChunk) {
        split_keys(block);
      } else {
        const index_t size = rows_per_block(rows);
        for (index_t end = rows; end > 0;) {
          const index_t begin = (end - 1) / size * size;
          block.first_row = begin;
          block.num_rows = end - begin;
          blocks_.push_back(block);
          end = begin;
        }
      }
    }
    plan_decode(few);
  }

  /// Heads of few rows: chunks of keys, and in each as many heads as leave tasks for all workers.
  void plan_decode(const std::vector<Block>& few) {
    if (few.empty()) return;
    const Sequence sequence = sequence_of(problem_, few.front().b);
    const auto count = static_cast<index_t>(few.size());
    const index_t per_task = heads_per_decode(count * std::max<index_t>(1, sequence.seqlen_kv / kKeysPerChunk));
    for (index_t key = 0; key == 0 || key < sequence.seqlen_kv; key += kKeysPerChunk) {
      for (index_t first = 0; first < count; first += per_task) {
        std::vector<Block> task(few.begin() + first, few.begin() + std::min(first + per_task, count));
        for (Block& block : task) {
          block.key_begin = key;
          block.key_end = std::min(sequence.seqlen_kv, key + kKeysPerChunk);
        }
        decodes_.push_back(std::move(task));
      }
    }
  }

  /// One head when each lies by itself; otherwise all, since memory is read best in its order. Never a matter of bits.
  index_t heads_per_decode(index_t head_chunks) const {
    const auto interleaved = [](const InputView<4>& x) {
      return x.stride[2] > 0 && x.stride[2] * x.shape[2] <= x.stride[1];
    };
    if (!interleaved(input_.k) || !interleaved(input_.v)) return 1;
    const index_t tasks = workers_ == 1 ? 1 : kBlocksPerWorker * workers_;
    return std::clamp<index_t>(head_chunks * problem_.batch / tasks, 1, kernels::kMaxDecodeHeads);
  }

  std::vector<kernels::ForwardArgs<T>> heads_of(const std::vector<Block>& task, T* partial) const {
    std::vector<kernels::ForwardArgs<T>> heads;
    for (const Block& block : task) heads.push_back(args_of(block, partial));
    return heads;
  }

  /// What the largest of all tasks needs. Each is asked: which one that is depends on more than its rows and keys.
  index_t workspace_size() const {
    index_t size = splits_.empty() ? 0 : problem_.head_dim_v;
    for (const Block& block : blocks_) size = std::max(size, kernels_.forward_workspace(args_of(block, nullptr)));
    for (const std::vector<Block>& task : decodes_) {
      const std::vector<kernels::ForwardArgs<T>> heads = heads_of(task, nullptr);
      size = std::max(size, kernels_.decode_workspace({heads.data(), static_cast<index_t>(heads.size())}));
    }
    return size;
  }

  /// Whole tiles, and enough blocks for all workers. Never a matter of bits.
  index_t rows_per_block(index_t rows) const {
    const index_t tiles = (rows + kernels_.lanes - 1) / kernels_.lanes;
    const index_t heads = problem_.batch * problem_.num_kv_heads;
    const index_t wanted = (kBlocksPerWorker * workers_ + heads - 1) / heads;  // blocks a kv head
    const index_t per_block = workers_ == 1 ? tiles : (tiles + wanted - 1) / wanted;
    return std::clamp<index_t>(per_block, 1, tiles_in(kBlockBytes)) * kernels_.lanes;
  }

  /// Query tiles whose queries, accumulators and probabilities of `kept_keys` fit into so much memory.
  index_t tiles_in(index_t bytes, index_t kept_keys = 0) const {
    const index_t numbers = problem_.head_dim + problem_.head_dim_v + kept_keys;
    const index_t tile_bytes = numbers * kernels_.lanes * index_t{sizeof(T)};
    return std::clamp<index_t>(bytes / tile_bytes, 1, kMaxTiles);
  }

  /// Room for the partial results of all chunks, to be joined in the end.
  void reserve_partial(Block& block) {
    const index_t chunks = (block.key_end + kKeysPerChunk - 1) / kKeysPerChunk;
    block.partial_begin = partial_size_;
    partial_size_ += chunks * block.num_rows * (problem_.head_dim_v + kernels::kStats);
    splits_.push_back(block);
  }

  void split_keys(Block block) {
    const index_t keys = block.key_end;
    const index_t chunks = (keys + kKeysPerChunk - 1) / kKeysPerChunk;
    reserve_partial(block);
    for (index_t c = 0; c < chunks; ++c) {
      block.key_begin = c * kKeysPerChunk;
      block.key_end = std::min(keys, block.key_begin + kKeysPerChunk);
      blocks_.push_back(block);
    }
  }

  kernels::ForwardArgs<T> args_of(const Block& block, T* partial) const {
    const Sequence sequence = sequence_of(problem_, block.b);
    kernels::ForwardArgs<T> args;
    args.scores = scores_of<T>(problem_, input_, groups_, sequence, block.b, block.g, block.num_rows);
    args.first_row = block.first_row;
    args.num_rows = block.num_rows;
    args.key_begin = block.key_begin;
    args.key_end = block.key_end;
    args.tiles_per_group = tiles_in(kGroupBytes, output_.probs ? problem_.seqlen_kv : 0);
    args.out = out_rows(sequence);
    args.row_max = row_values(output_.row_max, sequence);
    args.row_sum = row_values(output_.row_sum, sequence);
    args.lse = row_values(output_.lse, sequence);
    if (output_.probs) {
      const auto& stride = output_.probs.stride;
      args.probs = {static_cast<T*>(output_.probs.data) + block.b * stride[0], stride[1], stride[2], 1};
      args.probs_head = probs_head_.data();
      args.probs_query = probs_query_.data();
      args.probs_keys = problem_.seqlen_kv;
    }
    if (block.partial_begin >= 0 && partial != nullptr) {
      // [chunk, row, feature], then [chunk, row, statistic].
      const index_t chunk = block.key_begin / kKeysPerChunk;
      const index_t chunks = (sequence.seqlen_kv + kKeysPerChunk - 1) / kKeysPerChunk;
      T* acc = partial + block.partial_begin;
      args.partial_acc = acc + chunk * block.num_rows * problem_.head_dim_v;
      args.partial_stats =
          acc + chunks * block.num_rows * problem_.head_dim_v + chunk * block.num_rows * kernels::kStats;
    }
    return args;
  }

  kernels::Rows out_rows(const Sequence& sequence) const {
    const OutputView<4>& out = output_.out;
    const index_t offset = sequence.batch_index * out.stride[0] + sequence.q_begin * out.stride[1];
    return {static_cast<char*>(out.data) + offset * dtype_bytes(out.dtype), out.dtype, out.stride[1], out.stride[2]};
  }

  static kernels::RowValues<T> row_values(const OutputView<3>& view, const Sequence& sequence) {
    if (!view) return {};
    const index_t offset = sequence.batch_index * view.stride[0] + sequence.q_begin * view.stride[2];
    return {static_cast<T*>(view.data) + offset, view.stride[1], view.stride[2]};
  }

  /// Rows past seqlen_q: zero out and probs, lse -infinity.
  void write_absent_rows(index_t b) const {
    const Sequence sequence = sequence_of(problem_, b);
    const kernels::Rows out = out_rows(sequence);
    constexpr T kNone = -std::numeric_limits<T>::infinity();
    const auto fill = [](const kernels::RowValues<T>& values, index_t h, index_t i, T value) {
      if (values.data != nullptr) values.data[h * values.head_stride + i * values.query_stride] = value;
    };
    for (index_t h = 0; h < problem_.num_heads; ++h) {
      for (index_t i = sequence.seqlen_q; i < sequence.padded_q; ++i) {
        const index_t offset = i * out.token_stride + h * out.head_stride;
        std::fill_n(static_cast<char*>(out.data) + offset * dtype_bytes(out.dtype),
                    problem_.head_dim_v * dtype_bytes(out.dtype), char{0});
        fill(row_values(output_.row_max, sequence), h, i, kNone);
        fill(row_values(output_.row_sum, sequence), h, i, T{0});
        fill(row_values(output_.lse, sequence), h, i, kNone);
      }
    }
    if (output_.probs) clear_absent_probs(b, sequence);
  }

  void clear_absent_probs(index_t b, const Sequence& sequence) const {
    const auto& probs = output_.probs;
    for (index_t n = 0; n < probs.shape[1]; ++n) {
      for (index_t r = 0; r < probs.shape[2]; ++r) {
        const index_t query = options_.probs.rows ? options_.probs.rows(r) : r;
        if (query < sequence.seqlen_q && sequence.seqlen_kv > 0) continue;
        T* row = static_cast<T*>(probs.data) + b * probs.stride[0] + n * probs.stride[1] + r * probs.stride[2];
        std::fill_n(row, problem_.seqlen_kv, T{0});
      }
    }
  }

  const Problem& problem_;
  const AttentionInput& input_;
  const AttentionOutput& output_;
  const AttentionOptions& options_;
  const HeadGroups groups_;
  const kernels::Table<T>& kernels_;
  const index_t workers_;
  Tensor<index_t, 1> probs_head_, probs_query_;
  std::vector<Block> blocks_, splits_;
  std::vector<std::vector<Block>> decodes_;  // heads of one range of keys
  index_t partial_size_ = 0;
};

}  // namespace

void attention_forward(const AttentionInput& input, const AttentionOutput& output, const AttentionOptions& options) {
  const Problem problem = check_problem(kName, input, options);
  check_outputs(problem, input, output);
  if (problem.f64) {
    Forward<double>(problem, input, output).run();
  } else {
    Forward<float>(problem, input, output).run();
  }
}

}  // namespace multihead
