#include "attention/delta.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/ceil_div.hpp"

namespace multihead {
namespace {

constexpr index_t kTokensPerTask = 64;

}  // namespace

template <class T>
Delta<T>::Delta(const Problem& problem, const AttentionBackwardInput& input)
    : problem_(problem),
      input_(input),
      delta_({input.row_max.shape(0), input.row_max.shape(1), input.row_max.shape(2)}) {
  const TensorView<const T, 3> dlse = input.dlse.template as<T>();
  // Token by token, which is the order of rows in memory.
  const index_t blocks = ceil_div(delta_.shape(2), kTokensPerTask);
  run_tasks(problem.options->threads, delta_.shape(0) * blocks, [&](index_t task, int) {
    const index_t b = task / blocks, begin = task % blocks * kTokensPerTask;
    const index_t end = std::min(begin + kTokensPerTask, delta_.shape(2));
    const index_t heads = delta_.shape(1);
    // The inner loop is along the axis with the smaller stride.
    const bool by_token = std::abs(input.dout.stride(1)) < std::abs(input.dout.stride(2));
    const auto rows = [&](const InputView<4>& v, index_t i, index_t h) {
      const index_t offset = b * v.stride(0) + i * v.stride(1) + h * v.stride(2);
      return kernels::ConstRows{static_cast<const char*>(v.data()) + offset * dtype_bytes(v.dtype()), v.dtype(),
                                by_token ? v.stride(1) : v.stride(2), 0};
    };
    const auto dots = [&](index_t i, index_t h, index_t count) {
      kernels::table<T>().row_dots({.a = rows(input.dout, i, h),
                                    .b = rows(input.out, i, h),
                                    .num_rows = count,
                                    .width = problem.head_dim_v,
                                    .out = &delta_(b, h, i),
                                    .out_stride = by_token ? 1 : delta_.shape(2)});
    };
    if (by_token) {
      for (index_t h = 0; h < heads; ++h) dots(begin, h, end - begin);
    } else {
      for (index_t i = begin; i < end; ++i) dots(i, 0, heads);
    }
    for (index_t h = 0; dlse && h < heads; ++h) {
      for (index_t i = begin; i < end; ++i) delta_(b, h, i) -= dlse(b, h, i);
    }
  });
}

template <class T>
void Delta<T>::sink_gradient(TensorView<T, 1> dsinks) const {
  const TensorView<const T, 1> sinks = problem_.options->sinks.as<T>();
  const TensorView<const T, 3> row_max = input_.row_max.template as<T>(), row_sum = input_.row_sum.template as<T>();
  for (index_t h = 0; h < problem_.num_heads; ++h) {
    double total = 0;  // in double: one term per token
    for (index_t b = 0; b < problem_.batch && sinks(h) != -std::numeric_limits<T>::infinity(); ++b) {
      const Sequence s = sequence_of(problem_, b);
      double sum = 0;
      for (index_t i = s.q_begin; i < s.q_begin + s.seqlen_q; ++i) {
        const T max = row_max(s.batch_index, h, i);
        sum -= double{exp_minus(sinks(h), max) / row_sum(s.batch_index, h, i)} * double{delta_(s.batch_index, h, i)};
      }
      total += sum;
    }
    dsinks(h) = static_cast<T>(total);
  }
}

template class Delta<float>;
template class Delta<double>;

}  // namespace multihead
