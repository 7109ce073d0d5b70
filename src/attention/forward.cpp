// attention_forward: equations (1) to (6) of docs/algorithm.md. Calls the kernels for the tasks of the plan.

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "attention/forward_checks.hpp"
#include "attention/plan.hpp"
#include "core/ceil_div.hpp"
#include "core/workspace.hpp"

namespace multihead {
namespace {

// Inputs up to this size stay in cache: prefetching the rows of the next block then costs 2 % and gains nothing. For
// larger inputs it gains 3 to 6 % if sequences are short.
constexpr index_t kNearBytes = 1536 * 1024;

index_t bytes_of(const InputView<4>& view) {
  return view.shape(0) * view.shape(1) * view.shape(2) * view.shape(3) * dtype_bytes(view.dtype());
}

/// Index of each head or query in the selected probs, -1 for those that are not selected.
Tensor<index_t, 1> slots(const TensorView<const index_t, 1>& chosen, index_t count) {
  Tensor<index_t, 1> slot({count});
  std::fill_n(slot.data(), count, index_t{-1});
  for (index_t n = 0; n < chosen.shape(0); ++n) slot(chosen(n)) = n;
  return slot;
}

/// One call of attention_forward in arithmetic type T.
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
        workers_(num_workers(options_.threads)),
        plan_(plan_forward(problem, groups_, facts())) {
    if (options_.probs.heads) probs_head_ = slots(options_.probs.heads, problem.num_heads);
    if (options_.probs.rows) probs_query_ = slots(options_.probs.rows, problem.seqlen_q);
  }

  void run() {
    const Workspace<T> workspace(workers_, task_memory());
    const Workspace<T> partial(1, plan_.partial_size);
    run_decodes(workspace, partial.part(0));
    run_blocks(workspace, partial.part(0));
    run_splits(workspace, partial.part(0));
    for (index_t b = 0; b < problem_.batch; ++b) write_absent_rows(b);
  }

 private:
  PlanFacts facts() const {
    const auto interleaved = [](const InputView<4>& x) {
      return x.stride(2) > 0 && x.stride(2) * x.shape(2) <= x.stride(1);
    };
    return {.workers = workers_,
            .lanes = kernels_.lanes,
            .decode_rows = kernels_.decode_rows,
            .element_bytes = index_t{sizeof(T)},
            .keeps_probs = bool(output_.probs),
            .heads_interleaved = interleaved(input_.k) && interleaved(input_.v)};
  }

  /// Elements of scratch memory that the task with the largest need takes.
  index_t task_memory() const {
    const ForwardBlock* last = nullptr;
    index_t of_last = 0;
    const auto of_block = [&](const ForwardBlock& block) {
      // Heads of a sequence that take as many rows of the same keys differ in addresses alone, and need as much.
      const bool as_last = last != nullptr && block.b == last->b && block.num_rows == last->num_rows &&
                           block.key_begin == last->key_begin && block.key_end == last->key_end;
      if (!as_last) of_last = kernels_.forward_workspace(args_of(block, nullptr));
      last = &block;
      return of_last;
    };
    const auto of_decode = [&](std::span<const ForwardBlock> blocks) {
      const std::vector<kernels::ForwardArgs<T>> heads = heads_of(blocks, nullptr);
      return kernels_.decode_workspace({heads.data(), static_cast<index_t>(heads.size())});
    };
    return workspace_size(plan_, of_block, of_decode, problem_.head_dim_v);
  }

  void run_decodes(const Workspace<T>& workspace, T* partial) const {
    run_tasks(options_.threads, static_cast<index_t>(plan_.decodes.size()), [&](index_t index, int worker) {
      const std::vector<kernels::ForwardArgs<T>> heads =
          heads_of(plan_.heads_of(plan_.decodes[static_cast<std::size_t>(index)]), partial);
      kernels_.decode({heads.data(), static_cast<index_t>(heads.size()), workspace.part(worker)});
    });
  }

  void run_blocks(const Workspace<T>& workspace, T* partial) const {
    const bool far = bytes_of(input_.q) + bytes_of(input_.k) + bytes_of(input_.v) > kNearBytes;
    const auto count = static_cast<index_t>(plan_.blocks.size());
    run_tasks(options_.threads, count, [&](index_t index, int worker) {
      kernels::ForwardArgs<T> args = args_of(plan_.blocks[static_cast<std::size_t>(index)], partial), upcoming;
      if (far && index + workers_ < count) {
        upcoming = args_of(plan_.blocks[static_cast<std::size_t>(index + workers_)], nullptr);
        args.upcoming = &upcoming;
      }
      args.workspace = workspace.part(worker);
      kernels_.forward_block(args);
    });
  }

  void run_splits(const Workspace<T>& workspace, T* partial) const {
    run_tasks(options_.threads, static_cast<index_t>(plan_.splits.size()), [&](index_t index, int worker) {
      const ForwardBlock& all = plan_.splits[static_cast<std::size_t>(index)];
      kernels::CombineArgs<T> combine;
      combine.block = args_of(all, partial);
      combine.partial_acc = combine.block.partial_acc;
      combine.partial_stats = combine.block.partial_stats;
      combine.block.workspace = workspace.part(worker);
      combine.num_chunks = ceil_div(all.key_end, kKeysPerChunk);
      combine.keys_per_chunk = kKeysPerChunk;
      kernels_.combine_chunks(combine);
    });
  }

  std::vector<kernels::ForwardArgs<T>> heads_of(std::span<const ForwardBlock> blocks, T* partial) const {
    std::vector<kernels::ForwardArgs<T>> heads;
    for (const ForwardBlock& block : blocks) heads.push_back(args_of(block, partial));
    return heads;
  }

  kernels::ForwardArgs<T> args_of(const ForwardBlock& block, T* partial) const {
    const Sequence sequence = sequence_of(problem_, block.b);
    kernels::ForwardArgs<T> args;
    args.problem = head_problem_of<T>(problem_, input_, groups_, sequence, block.b, block.g, block.num_rows);
    args.first_row = block.first_row;
    args.num_rows = block.num_rows;
    args.key_begin = block.key_begin;
    args.key_end = block.key_end;
    args.tiles_per_group = plan_.tiles_per_group;
    args.out = out_rows(sequence);
    args.row_max = row_plane(output_.row_max, sequence);
    args.row_sum = row_plane(output_.row_sum, sequence);
    args.lse = row_plane(output_.lse, sequence);
    if (output_.probs) {
      const auto& stride = output_.probs.stride();
      args.probs = {static_cast<T*>(output_.probs.data()) + block.b * stride[0], stride[1], stride[2], 1};
      args.probs_head = probs_head_.data();
      args.probs_query = probs_query_.data();
      args.probs_keys = problem_.seqlen_kv;
    }
    if (block.acc_begin >= 0 && partial != nullptr) {
      args.partial_acc = partial + block.acc_begin;
      args.partial_stats = partial + block.stats_begin;
    }
    return args;
  }

  kernels::Rows out_rows(const Sequence& sequence) const {
    const OutputView<4>& out = output_.out;
    const index_t offset = sequence.batch_index * out.stride(0) + sequence.q_begin * out.stride(1);
    return {static_cast<char*>(out.data()) + offset * dtype_bytes(out.dtype()), out.dtype(), out.stride(1),
            out.stride(2)};
  }

  static kernels::RowPlane<T> row_plane(const OutputView<3>& view, const Sequence& sequence) {
    if (!view) return {};
    const index_t offset = sequence.batch_index * view.stride(0) + sequence.q_begin * view.stride(2);
    return {static_cast<T*>(view.data()) + offset, view.stride(1), view.stride(2)};
  }

  /// Padding rows, from seqlen_q on: out and probs are 0, lse is -infinity.
  void write_absent_rows(index_t b) const {
    const Sequence sequence = sequence_of(problem_, b);
    const kernels::Rows out = out_rows(sequence);
    constexpr T kNone = -std::numeric_limits<T>::infinity();
    const auto fill = [](const kernels::RowPlane<T>& values, index_t h, index_t i, T value) {
      if (values.data != nullptr) values.data[h * values.head_stride + i * values.query_stride] = value;
    };
    for (index_t h = 0; h < problem_.num_heads; ++h) {
      for (index_t i = sequence.seqlen_q; i < sequence.padded_q; ++i) {
        const index_t offset = i * out.token_stride + h * out.head_stride;
        std::fill_n(static_cast<char*>(out.data) + offset * dtype_bytes(out.dtype),
                    problem_.head_dim_v * dtype_bytes(out.dtype), char{0});
        fill(row_plane(output_.row_max, sequence), h, i, kNone);
        fill(row_plane(output_.row_sum, sequence), h, i, T{0});
        fill(row_plane(output_.lse, sequence), h, i, kNone);
      }
    }
    if (output_.probs) clear_absent_probs(b, sequence);
  }

  void clear_absent_probs(index_t b, const Sequence& sequence) const {
    const auto& probs = output_.probs;
    for (index_t n = 0; n < probs.shape(1); ++n) {
      for (index_t r = 0; r < probs.shape(2); ++r) {
        const index_t query = options_.probs.rows ? options_.probs.rows(r) : r;
        if (query < sequence.seqlen_q && sequence.seqlen_kv > 0) continue;
        T* row = static_cast<T*>(probs.data()) + b * probs.stride(0) + n * probs.stride(1) + r * probs.stride(2);
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
  const ForwardPlan plan_;
  Tensor<index_t, 1> probs_head_, probs_query_;
};

}  // namespace

void attention_forward(const AttentionInput& input, const AttentionOutput& output, const AttentionOptions& options) {
  const Problem problem = check_forward(input, output, options);
  if (problem.f64) {
    Forward<double>(problem, input, output).run();
  } else {
    Forward<float>(problem, input, output).run();
  }
}

}  // namespace multihead
