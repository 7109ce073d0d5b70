// attention_backward: the split of dq, dk and dv into tasks whose sums have one order.

#include <algorithm>
#include <string>
#include <vector>

#include "attention/backward_checks.hpp"
#include "attention/bias_gradient.hpp"
#include "attention/delta.hpp"
#include "attention/problem.hpp"
#include "attention/workspace.hpp"

namespace multihead {
namespace {

// The keys of a kv head are cut into at most kMaxChunks ranges, each with its own sums for dq, which are then added in
// order. The number depends on the length alone. Fewer than kMinChunkKeys keys are not worth a task of their own.
constexpr index_t kMaxChunks = 4;
constexpr index_t kMinChunkKeys = 256;
// Tasks a worker should get before the sums for dq of more kv heads are held at once.
constexpr index_t kTasksPerWorker = 4;

index_t num_chunks(index_t seqlen_kv) {
  return std::clamp<index_t>((seqlen_kv + kMinChunkKeys - 1) / kMinChunkKeys, 1, kMaxChunks);
}

/// Keys of a chunk: whole key tiles.
index_t chunk_size(index_t seqlen_kv) {
  const index_t tiles = (seqlen_kv + kernels::kKeysPerTile - 1) / kernels::kKeysPerTile;
  const index_t chunks = num_chunks(seqlen_kv);
  return std::max<index_t>((tiles + chunks - 1) / chunks, 1) * kernels::kKeysPerTile;
}

template <class T>
class Backward {
 public:
  Backward(const Problem& problem, const AttentionBackwardInput& input, const AttentionGradients& gradients)
      : problem_(problem),
        input_(input),
        gradients_(gradients),
        options_(*problem.options),
        groups_(problem),
        kernels_(kernels::table<T>()),
        workers_(num_workers(options_.threads)),
        delta_(problem, input) {}

  void run() {
    if (gradients_.dslopes) slopes_ = Tensor<T, 3>({problem_.batch, problem_.num_heads, kMaxChunks});
    const index_t kv_heads = problem_.batch * problem_.num_kv_heads;
    for (index_t begin = 0; begin < kv_heads;) begin = run_wave(begin, kv_heads);
    for (index_t b = 0; b < problem_.batch; ++b) clear_absent(b);
    if (gradients_.dsinks) delta_.sink_gradient(gradients_.dsinks.as<T>());
    if (gradients_.dslopes) slope_gradient();
    if (gradients_.dbias) {
      bias_gradient<T>(problem_, groups_, gradients_.dbias, [&](index_t b, index_t g) { return args_of(b, g); });
    }
  }

 private:
  struct Task {
    index_t b, g, chunk;
    index_t dq_begin;  // of the first chunk's sums
  };

  index_t rows_of(index_t b, index_t g) const { return groups_.size(g) * sequence_of(problem_, b).seqlen_q; }

  /// Elements of one chunk's sums for dq.
  index_t part_size(index_t b, index_t g) const {
    const index_t tiles = (rows_of(b, g) + kernels_.lanes - 1) / kernels_.lanes;
    return tiles * kernels_.lanes * problem_.head_dim;
  }

  /// Some kv heads of [begin, end), counted over all sequences, so many that all workers are busy; returns the next.
  index_t run_wave(index_t begin, index_t end) {
    std::vector<Task> tasks;
    index_t dq_size = 0, workspace_size = 0, next = begin;
    for (; next < end && static_cast<index_t>(tasks.size()) < kTasksPerWorker * workers_; ++next) {
      const index_t b = next / problem_.num_kv_heads, g = next % problem_.num_kv_heads;
      const index_t seqlen_kv = sequence_of(problem_, b).seqlen_kv;
      for (index_t chunk = 0; chunk < num_chunks(seqlen_kv); ++chunk) tasks.push_back({b, g, chunk, dq_size});
      if (gradients_.dq) dq_size += num_chunks(seqlen_kv) * part_size(b, g);
      const kernels::BackwardArgs<T> args = args_of(b, g);
      workspace_size = std::max({workspace_size, kernels_.backward_workspace(args),
                                 gradients_.dq ? kernels_.query_gradient_workspace(args.scores) : 0});
    }
    const Workspace<T> workspace(workers_, workspace_size), dq(1, dq_size);
    run_tasks(options_.threads, static_cast<index_t>(tasks.size()), [&](index_t index, int worker) {
      const Task& task = tasks[static_cast<std::size_t>(index)];
      kernels::BackwardArgs<T> args = args_of(task.b, task.g);
      const index_t size = chunk_size(args.scores.seqlen_kv);
      args.key_begin = std::min(task.chunk * size, args.scores.seqlen_kv);
      args.key_end = std::min(args.key_begin + size, args.scores.seqlen_kv);
      if (gradients_.dq) args.dq = dq.part(0) + task.dq_begin + task.chunk * part_size(task.b, task.g);
      Tensor<T, 1> slopes;
      if (gradients_.dslopes) args.dslopes = (slopes = Tensor<T, 1>({groups_.size(task.g)})).data();
      args.workspace = workspace.part(worker);
      kernels_.backward_block(args);
      for (index_t n = 0; n < slopes.size(); ++n) slopes_(task.b, groups_.of(task.g)[n], task.chunk) = slopes(n);
    });
    if (gradients_.dq) write_query_gradients(tasks, workspace, dq.part(0));
    return next;
  }

  void write_query_gradients(const std::vector<Task>& tasks, const Workspace<T>& workspace, const T* dq) {
    run_tasks(options_.threads, static_cast<index_t>(tasks.size()), [&](index_t index, int worker) {
      const Task& task = tasks[static_cast<std::size_t>(index)];
      if (task.chunk != 0) return;
      const Sequence sequence = sequence_of(problem_, task.b);
      kernels_.query_gradient({.scores = args_of(task.b, task.g).scores,
                               .parts = dq + task.dq_begin,
                               .num_parts = num_chunks(sequence.seqlen_kv),
                               .part_size = part_size(task.b, task.g),
                               .dq = rows(gradients_.dq, sequence.batch_index, sequence.q_begin, 0),
                               .workspace = workspace.part(worker)});
    });
  }

  kernels::BackwardArgs<T> args_of(index_t b, index_t g) const {
    const Sequence s = sequence_of(problem_, b);
    kernels::BackwardArgs<T> args;
    args.scores = scores_of<T>(problem_, {input_.q, input_.k, input_.v}, groups_, s, b, g, rows_of(b, g));
    const auto dout = rows(input_.dout, s.batch_index, s.q_begin, 0);
    args.dout = {dout.data, dout.dtype, dout.token_stride, dout.head_stride};
    args.row_max = row_values(input_.row_max, s);
    args.row_sum = row_values(input_.row_sum, s);
    args.delta = row_values(delta_.view(), s);
    args.dk = rows(gradients_.dk, s.batch_index, s.kv_begin, g);
    args.dv = rows(gradients_.dv, s.batch_index, s.kv_begin, g);
    return args;
  }

  /// Rows of a [B, S, heads, width] view from (batch, token, head) on; const views are only read.
  template <class View>
  static kernels::Rows rows(const View& view, index_t batch, index_t token, index_t head) {
    if (!view) return {};
    const index_t offset = batch * view.stride[0] + token * view.stride[1] + head * view.stride[2];
    char* data = static_cast<char*>(const_cast<void*>(static_cast<const void*>(view.data)));
    return {data + offset * dtype_bytes(view.dtype), view.dtype, view.stride[1], view.stride[2]};
  }

  static kernels::RowValues<const T> row_values(const InputView<3>& view, const Sequence& s) {
    const index_t offset = s.batch_index * view.stride[0] + s.q_begin * view.stride[2];
    return {static_cast<const T*>(view.data) + offset, view.stride[1], view.stride[2]};
  }

  /// Tokens past the valid lengths have zero gradients.
  void clear_absent(index_t b) const {
    const Sequence s = sequence_of(problem_, b);
    const auto clear = [&](const OutputView<4>& view, index_t first_token, index_t begin, index_t end) {
      for (index_t token = begin; view && token < end; ++token) {
        for (index_t h = 0; h < view.shape[2]; ++h) {
          char* row = static_cast<char*>(rows(view, s.batch_index, first_token + token, h).data);
          std::fill_n(row, view.shape[3] * dtype_bytes(view.dtype), char{0});
        }
      }
    };
    clear(gradients_.dq, s.q_begin, s.seqlen_q, s.padded_q);
    clear(gradients_.dk, s.kv_begin, s.seqlen_kv, s.padded_kv);
    clear(gradients_.dv, s.kv_begin, s.seqlen_kv, s.padded_kv);
  }

  void slope_gradient() const {
    const TensorView<T, 1> dslopes = gradients_.dslopes.as<T>();
    for (index_t h = 0; h < problem_.num_heads; ++h) {
      T sum = 0;
      for (index_t b = 0; b < problem_.batch; ++b) {
        for (index_t chunk = 0; chunk < kMaxChunks; ++chunk) sum += slopes_(b, h, chunk);
      }
      dslopes(h) = sum;
    }
  }

  const Problem& problem_;
  const AttentionBackwardInput& input_;
  const AttentionGradients& gradients_;
  const AttentionOptions& options_;
  const HeadGroups groups_;
  const kernels::Table<T>& kernels_;
  const index_t workers_;
  const Delta<T> delta_;
  Tensor<T, 3> slopes_;  // [B, H, chunk] partial sums
};

}  // namespace

void attention_backward(const AttentionBackwardInput& input, const AttentionGradients& gradients,
                        const AttentionOptions& options) {
  const Problem problem = check_backward(input, gradients, options);
  if (problem.f64) {
    Backward<double>(problem, input, gradients).run();
  } else {
    Backward<float>(problem, input, gradients).run();
  }
}

}  // namespace multihead
