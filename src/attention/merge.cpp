// attention_merge: equation (15) of docs/algorithm.md, lse = log(sum_p e^(lse_p)), out = sum_p out_p * e^(lse_p - lse).

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attention/problem.hpp"
#include "core/require.hpp"
#include "multihead/attention.hpp"

namespace multihead {
namespace {

constexpr const char* kName = "attention_merge";

/// The lse of a row that sees no key.
template <class T>
constexpr T kEmpty = -std::numeric_limits<T>::infinity();

template <int R>
void check_same(const char* name, const InputView<R>& view, const char* first_name, const InputView<R>& first) {
  require(bool(view), kName, Rule(name, " must be given"), {{name, "absent"}});
  require<UnsupportedError>(view.dtype() == first.dtype(), kName, Rule(name, " must have the dtype of ", first_name),
                            {{name, view.dtype()}, {first_name, first.dtype()}});
  require(view.shape() == first.shape(), kName, Rule(name, " must have the shape of ", first_name),
          {{name, shape_text(view.shape().data(), R)}, {first_name, shape_text(first.shape().data(), R)}});
}

void check(const PartialAttention& a, const PartialAttention& b, const AttentionOutput& output) {
  require(a.out && a.lse, kName, "out and lse must be given",
          {{"a.out", a.out ? "given" : "absent"}, {"a.lse", a.lse ? "given" : "absent"}});
  require<UnsupportedError>(a.out.dtype() == DType::f32 || a.out.dtype() == DType::f64, kName, "out must be f32 or f64",
                            {{"a.out", a.out.dtype()}});
  require<UnsupportedError>(a.lse.dtype() == a.out.dtype(), kName, "lse must have the dtype of out",
                            {{"a.lse", a.lse.dtype()}, {"a.out", a.out.dtype()}});
  const auto& out = a.out.shape();
  const auto& lse = a.lse.shape();
  require(lse[0] == out[0] && lse[1] == out[2] && lse[2] == out[1], kName,
          "lse must be [B, H, Sq] of out [B, Sq, H, Dv]",
          {{"a.lse", shape_text(lse.data(), 3)}, {"a.out", shape_text(out.data(), 4)}});
  check_same("b.out", b.out, "a.out", a.out);
  check_same("b.lse", b.lse, "a.lse", a.lse);
  check_same("output.out", InputView<4>(output.out), "a.out", a.out);
  if (output.lse) check_same("output.lse", InputView<3>(output.lse), "a.lse", a.lse);
  require(!output.probs && !output.row_max && !output.row_sum, kName, "only out and lse can be merged",
          {{"probs", output.probs ? "given" : "absent"},
           {"row_max", output.row_max ? "given" : "absent"},
           {"row_sum", output.row_sum ? "given" : "absent"}});
}

template <class T>
void merge(const PartialAttention& a, const PartialAttention& b, const AttentionOutput& output, Executor* threads) {
  const auto out_a = a.out.as<T>(), out_b = b.out.as<T>();
  const auto lse_a = a.lse.as<T>(), lse_b = b.lse.as<T>();
  const auto out = output.out.as<T>();
  const auto lse = output.lse.as<T>();
  run_tasks(threads, out.shape(0) * out.shape(2), [&](index_t task, int) {
    const index_t n = task / out.shape(2), h = task % out.shape(2);
    for (index_t i = 0; i < out.shape(1); ++i) {
      const T x = lse_a(n, h, i), y = lse_b(n, h, i);
      const T max = std::max(x, y);
      const bool empty = x == kEmpty<T> && y == kEmpty<T>;  // not from the maximum, which may ignore a NaN
      const auto weight_of = [&](T part) { return empty ? T{0} : exp_minus(part, max); };
      const T weight_a = weight_of(x), weight_b = weight_of(y);
      const T sum = weight_a + weight_b;
      // The values of an empty part are not read, as 0 * NaN is NaN.
      const auto share = [](T part_lse, T weight, T value) { return part_lse == kEmpty<T> ? T{0} : weight * value; };
      for (index_t d = 0; d < out.shape(3); ++d) {
        const T mixed = share(x, weight_a, out_a(n, i, h, d)) + share(y, weight_b, out_b(n, i, h, d));
        out(n, i, h, d) = empty ? T{0} : mixed / sum;
      }
      if (lse) lse(n, h, i) = empty ? max : max + std::log(sum);
    }
  });
}

}  // namespace

void attention_merge(const PartialAttention& a, const PartialAttention& b, const AttentionOutput& output,
                     Executor* threads) {
  check(a, b, output);
  if (a.out.dtype() == DType::f64) {
    merge<double>(a, b, output, threads);
  } else {
    merge<float>(a, b, output, threads);
  }
}

}  // namespace multihead
