// attention_backward: equations (7) to (14) of docs/algorithm.md. Calls the kernels for the tasks of the plan.

#include <algorithm>
#include <vector>

#include "attention/backward_checks.hpp"
#include "attention/bias_gradient.hpp"
#include "attention/delta.hpp"
#include "attention/plan.hpp"
#include "core/workspace.hpp"

namespace multihead {
namespace {

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
        plan_(plan_backward(problem, groups_,
                            {.workers = workers_, .lanes = kernels_.lanes, .wants_dq = bool(gradients.dq)})),
        delta_(problem, input) {}

  void run() {
    if (gradients_.dslopes) slopes_ = Tensor<double, 3>({problem_.batch, problem_.num_heads, kMaxGradientChunks});
    index_t size = 0;
    for (const BackwardTask& task : plan_.tasks) {
      const kernels::BackwardArgs<T> args = args_of(task);
      size = std::max({size, kernels_.backward_workspace(args),
                       gradients_.dq ? kernels_.query_gradient_workspace(args.problem) : 0});
    }
    const Workspace<T> workspace(workers_, size), dq(1, plan_.dq_size);
    for (const BackwardWave& wave : plan_.waves) run_wave(wave, workspace, dq.part(0));
    for (index_t b = 0; b < problem_.batch; ++b) clear_absent(b);
    if (gradients_.dsinks) delta_.sink_gradient(gradients_.dsinks.as<T>());
    if (gradients_.dslopes) slope_gradient();
    if (gradients_.dbias) {
      bias_gradient<T>(problem_, groups_, gradients_.dbias, [&](index_t b, index_t g) { return args_of(b, g); });
    }
  }

 private:
  /// Runs the tasks of a wave, which compute (9) to (13), then adds up dq of their kv heads, (13).
  void run_wave(const BackwardWave& wave, const Workspace<T>& workspace, T* dq) {
    const auto task_of = [&](index_t n) { return plan_.tasks[static_cast<std::size_t>(wave.begin + n)]; };
    run_tasks(options_.threads, wave.end - wave.begin, [&](index_t index, int worker) {
      const BackwardTask task = task_of(index);
      kernels::BackwardArgs<T> args = args_of(task);
      if (gradients_.dq) {
        args.dq = dq + task.dq_begin + task.chunk * task.dq_stride;
        if (task.dq_stride > task.dq_size) args.dq_outer = args.dq + task.dq_size;
      }
      Tensor<double, 1> slopes;
      if (gradients_.dslopes) args.dslopes = (slopes = Tensor<double, 1>({groups_.size(task.g)})).data();
      args.workspace = workspace.part(worker);
      kernels_.backward_block(args);
      for (index_t n = 0; n < slopes.size(); ++n) slopes_(task.b, groups_.of(task.g)[n], task.chunk) = slopes(n);
    });
    if (!gradients_.dq) return;
    run_tasks(options_.threads, wave.end - wave.begin, [&](index_t index, int worker) {
      const BackwardTask task = task_of(index);
      if (task.chunk == 0) write_query_gradient(task, dq + task.dq_begin, workspace.part(worker));
    });
  }

  void write_query_gradient(const BackwardTask& task, const T* parts, T* workspace) const {
    const Sequence sequence = sequence_of(problem_, task.b);
    kernels_.query_gradient({.problem = args_of(task.b, task.g).problem,
                             .parts = parts,
                             .num_parts = task.num_chunks,
                             .part_size = task.dq_stride,
                             .dq = rows(gradients_.dq, sequence.batch_index, sequence.q_begin, 0),
                             .workspace = workspace});
  }

  kernels::BackwardArgs<T> args_of(const BackwardTask& task) const {
    kernels::BackwardArgs<T> args = args_of(task.b, task.g);
    args.key_begin = task.key_begin;
    args.key_end = task.key_end;
    return args;
  }

  kernels::BackwardArgs<T> args_of(index_t b, index_t g) const {
    const Sequence s = sequence_of(problem_, b);
    const index_t num_rows = groups_.size(g) * s.seqlen_q;
    kernels::BackwardArgs<T> args;
    args.problem = head_problem_of<T>(problem_, {input_.q, input_.k, input_.v}, groups_, s, b, g, num_rows);
    const auto dout = rows(input_.dout, s.batch_index, s.q_begin, 0);
    args.dout = {dout.data, dout.dtype, dout.token_stride, dout.head_stride};
    args.row_max = row_plane(input_.row_max, s);
    args.row_sum = row_plane(input_.row_sum, s);
    args.delta = row_plane(delta_.view(), s);
    args.dk = rows(gradients_.dk, s.batch_index, s.kv_begin, g);
    args.dv = rows(gradients_.dv, s.batch_index, s.kv_begin, g);
    return args;
  }

  /// Rows of a [B, S, heads, width] view, starting at (batch, token, head). Const views are only read.
  template <class View>
  static kernels::Rows rows(const View& view, index_t batch, index_t token, index_t head) {
    if (!view) return {};
    const index_t offset = batch * view.stride(0) + token * view.stride(1) + head * view.stride(2);
    char* data = static_cast<char*>(const_cast<void*>(static_cast<const void*>(view.data())));
    return {data + offset * dtype_bytes(view.dtype()), view.dtype(), view.stride(1), view.stride(2)};
  }

  static kernels::RowPlane<const T> row_plane(const InputView<3>& view, const Sequence& s) {
    const index_t offset = s.batch_index * view.stride(0) + s.q_begin * view.stride(2);
    return {static_cast<const T*>(view.data()) + offset, view.stride(1), view.stride(2)};
  }

  /// Sets the gradients of padding tokens to 0.
  void clear_absent(index_t b) const {
    const Sequence s = sequence_of(problem_, b);
    const auto clear = [&](const OutputView<4>& view, index_t first_token, index_t begin, index_t end) {
      for (index_t token = begin; view && token < end; ++token) {
        for (index_t h = 0; h < view.shape(2); ++h) {
          char* row = static_cast<char*>(rows(view, s.batch_index, first_token + token, h).data);
          std::fill_n(row, view.shape(3) * dtype_bytes(view.dtype()), char{0});
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
      double sum = 0;
      for (index_t b = 0; b < problem_.batch; ++b) {
        for (index_t chunk = 0; chunk < kMaxGradientChunks; ++chunk) sum += slopes_(b, h, chunk);
      }
      dslopes(h) = static_cast<T>(sum);
    }
  }

  const Problem& problem_;
  const AttentionBackwardInput& input_;
  const AttentionGradients& gradients_;
  const AttentionOptions& options_;
  const HeadGroups groups_;
  const kernels::Table<T>& kernels_;
  const index_t workers_;
  const BackwardPlan plan_;
  const Delta<T> delta_;
  Tensor<double, 3> slopes_;  // [B, H, chunk] partial sums of dslope, (11)
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
