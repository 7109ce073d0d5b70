// Converts checked options to the arguments of a kernel for one sequence and one kv head.

#include <algorithm>
#include <cmath>
#include <optional>

#include "attention/problem.hpp"

namespace multihead {
namespace {

// Keys and values are copied into contiguous rows if their stride is at least this many bytes, as such rows map to few
// cache sets (docs/ladder.md), and at least so many query tiles use the copy. Copying values pays off earlier, as they
// are read column by column.
constexpr index_t kFarRowBytes = 1024;
constexpr index_t kTilesWorthCopyKeys = 12;
constexpr index_t kTilesWorthCopyValues = 5;

/// Address of (batch, token, head 0) in a view of any dtype.
template <class View>
auto at(const View& view, index_t batch, index_t token) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(view.data())>>, const char, char>;
  return static_cast<Byte*>(view.data()) +
         (batch * view.stride(0) + token * view.stride(1)) * dtype_bytes(view.dtype());
}

/// The part [head, query, key] of a broadcast view that belongs to sequence b. Its elements have type E, or any type if
/// E is void.
template <class E>
kernels::Plane<const E> plane_of(const InputView<4>& view, index_t b) {
  if (!view) return {};
  const auto stride = [&](int axis) { return view.shape(axis) == 1 ? 0 : view.stride(axis); };
  const char* const data = static_cast<const char*>(view.data()) + b * stride(0) * dtype_bytes(view.dtype());
  return {static_cast<const E*>(static_cast<const void*>(data)), stride(1), stride(2), stride(3)};
}

/// a + b, clamped to [low, high], also if the sum overflows.
index_t clamped_sum(index_t a, index_t b, index_t low, index_t high) {
  index_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return a < 0 ? low : high;
  return std::clamp(sum, low, high);
}

/// Causal mask and window as bounds of j - i, clamped to the extent of the sequence: beyond it they change nothing.
template <class T>
void set_band(const Mask& mask, index_t diagonal, kernels::HeadProblem<T>& s) {
  const std::optional<index_t> right = mask.causal == Causal::off ? mask.window_right : index_t{0};
  s.banded = mask.window_left || right;
  s.band_begin = mask.window_left ? clamped_sum(diagonal, -*mask.window_left, -s.seqlen_q, s.seqlen_kv) : -s.seqlen_q;
  s.band_end = right ? clamped_sum(diagonal, *right, -s.seqlen_q - 1, s.seqlen_kv - 1) + 1 : s.seqlen_kv;
}

}  // namespace

template <class T>
kernels::HeadProblem<T> head_problem_of(const Problem& problem, const AttentionInput& input, const HeadGroups& groups,
                                        const Sequence& sequence, index_t b, index_t g, index_t num_rows) {
  const AttentionOptions& options = *problem.options;
  kernels::HeadProblem<T> s;
  s.heads = groups.of(g);
  s.heads_per_kv = groups.size(g);
  s.seqlen_q = sequence.seqlen_q;
  s.seqlen_kv = sequence.seqlen_kv;
  s.head_dim = problem.head_dim;
  s.head_dim_v = problem.head_dim_v;

  s.q = {at(input.q, sequence.batch_index, sequence.q_begin), input.q.dtype(), input.q.stride(1), input.q.stride(2)};
  const auto kv_rows = [&](const InputView<4>& view) {
    const index_t batch = options.page_table ? 0 : sequence.batch_index;
    const char* head = at(view, batch, sequence.kv_begin) + g * view.stride(2) * dtype_bytes(view.dtype());
    return kernels::ConstRows{head, view.dtype(), view.stride(1), 0};
  };
  s.k = kv_rows(input.k);
  s.v = kv_rows(input.v);
  const auto worth = [&](const kernels::ConstRows& rows, index_t num_tiles) {
    return num_rows >= num_tiles * problem.lanes && rows.token_stride * dtype_bytes(rows.dtype) >= kFarRowBytes;
  };
  s.copy_keys = worth(s.k, kTilesWorthCopyKeys);
  s.copy_values = worth(s.v, kTilesWorthCopyValues);
  if (options.page_table) {
    s.pages = {options.page_table.data() + b * options.page_table.stride(0), options.page_table.stride(1),
               input.k.shape(1), input.k.stride(0), input.v.stride(0)};
  }

  s.scale = static_cast<T>(problem.scale);
  s.softcap = static_cast<T>(options.softcap.value_or(0.0));
  s.diagonal = sequence.diagonal;
  set_band(options.mask, sequence.diagonal, s);
  s.bias = plane_of<void>(options.bias, b);
  s.bias_dtype = options.bias.dtype();
  s.visible = plane_of<bool>(options.mask.visible, b);
  s.alibi_slopes = static_cast<const T*>(options.alibi_slopes.data());
  s.alibi_stride = options.alibi_slopes.stride(0);
  s.sinks = static_cast<const T*>(options.sinks.data());
  s.sinks_stride = options.sinks.stride(0);

  const Dropout& dropout = options.dropout;
  s.dropout_seed = dropout.seed;
  s.sequence_id = static_cast<std::uint32_t>(dropout.sequence_ids ? dropout.sequence_ids(b) : b);
  s.dropout_threshold = static_cast<std::uint64_t>(std::llround(dropout.probability * 0x1p32));
  s.keep_scale = dropout.probability < 1 ? static_cast<T>(1.0 / (1.0 - dropout.probability)) : T{0};
  return s;
}

template kernels::HeadProblem<float> head_problem_of(const Problem&, const AttentionInput&, const HeadGroups&,
                                                     const Sequence&, index_t, index_t, index_t);
template kernels::HeadProblem<double> head_problem_of(const Problem&, const AttentionInput&, const HeadGroups&,
                                                      const Sequence&, index_t, index_t, index_t);

}  // namespace multihead
