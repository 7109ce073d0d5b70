#include "attention/delta.hpp"

#include <algorithm>

namespace multihead {
namespace {

constexpr index_t kTokensPerTask = 64;

template <class T>
T number(T x) {
  return x;
}
float number(bf16 x) { return to_float(x); }
float number(f16 x) { return to_float(x); }

/// Calls fn(const S*) with the storage type of the view.
template <class T, class Fn>
auto with_type(const InputView<4>& view, const Fn& fn) {
  if constexpr (std::is_same_v<T, double>) {
    return fn(static_cast<const double*>(view.data()));
  } else {
    switch (view.dtype()) {
      case DType::bf16: return fn(static_cast<const bf16*>(view.data()));
      case DType::f16: return fn(static_cast<const f16*>(view.data()));
      default: return fn(static_cast<const float*>(view.data()));
    }
  }
}

/// sum_d a[d]*b[d] in 8 interleaved sums. Where b is 0 nothing is read into the sum: an empty row's out is 0, and
/// whatever stands in its dout has no effect.
template <class T, class A, class B>
T dot(const A* a, const B* b, index_t width) {
  T sums[8] = {};
  index_t d = 0;
  for (; d + 8 <= width; d += 8) {
    for (int l = 0; l < 8; ++l) {
      const T x = static_cast<T>(number(a[d + l])), y = static_cast<T>(number(b[d + l]));
      const T product = x * y;
      sums[l] += y == T{0} ? T{0} : product;
    }
  }
  for (; d < width; ++d) {
    const T y = static_cast<T>(number(b[d]));
    sums[d % 8] += y == T{0} ? T{0} : static_cast<T>(number(a[d])) * y;
  }
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

}  // namespace

template <class T>
Delta<T>::Delta(const Problem& problem, const AttentionBackwardInput& input)
    : problem_(problem),
      input_(input),
      delta_({input.row_max.shape(0), input.row_max.shape(1), input.row_max.shape(2)}) {
  const TensorView<const T, 3> dlse = input.dlse.template as<T>();
  // Token by token, as rows lie in memory.
  const index_t blocks = (delta_.shape(2) + kTokensPerTask - 1) / kTokensPerTask;
  run_tasks(problem.options->threads, delta_.shape(0) * blocks, [&](index_t task, int) {
    const index_t b = task / blocks, begin = task % blocks * kTokensPerTask;
    const index_t end = std::min(begin + kTokensPerTask, delta_.shape(2)), heads = delta_.shape(1);
    with_type<T>(input.dout, [&](const auto* dout) {
      with_type<T>(input.out, [&](const auto* out) {
        for (index_t n = begin * heads; n < end * heads; ++n) {
          const index_t i = n / heads, h = n % heads;
          const auto at = [&](const InputView<4>& v) { return b * v.stride(0) + i * v.stride(1) + h * v.stride(2); };
          const T sum = dot<T>(dout + at(input.dout), out + at(input.out), problem.head_dim_v);
          delta_(b, h, i) = dlse ? sum - dlse(b, h, i) : sum;
        }
      });
    });
  });
}

template <class T>
void Delta<T>::sink_gradient(TensorView<T, 1> dsinks) const {
  const TensorView<const T, 1> sinks = problem_.options->sinks.as<T>();
  const TensorView<const T, 3> row_max = input_.row_max.template as<T>(), row_sum = input_.row_sum.template as<T>();
  for (index_t h = 0; h < problem_.num_heads; ++h) {
    T total = 0;
    for (index_t b = 0; b < problem_.batch && sinks(h) != -std::numeric_limits<T>::infinity(); ++b) {
      const Sequence s = sequence_of(problem_, b);
      T sum = 0;
      for (index_t i = s.q_begin; i < s.q_begin + s.seqlen_q; ++i) {
        const T share = std::exp(sinks(h) - row_max(s.batch_index, h, i)) / row_sum(s.batch_index, h, i);
        sum -= share * delta_(s.batch_index, h, i);
      }
      total += sum;
    }
    dsinks(h) = total;
  }
}

template class Delta<float>;
template class Delta<double>;

}  // namespace multihead
