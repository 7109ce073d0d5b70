// Long sums: over a million keys or queries every sum stays within an error that does not follow their number.
//
// Where all terms have one sign and one size, a plain loop in f32 is off by 1e-2: the largest error that the other rule
// (tests/support/error_rule.hpp) would allow. Here truth is known in closed form, and inputs are one row seen again and
// again (stride 0), so that a million keys cost nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "multihead/threads.hpp"
#include "tests/support/error_rule.hpp"
#include "tests/support/small_attention.hpp"

namespace multihead::test {
namespace {

constexpr index_t kMillion = index_t{1} << 20;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// [1, seqlen, 1, width], every token the same row.
struct Repeated {
  Tensor<float, 1> row;
  index_t seqlen;
  Repeated(index_t num_tokens, index_t width, float value) : row({width}), seqlen(num_tokens) {
    std::fill_n(row.data(), width, value);
  }
  TensorView<const float, 4> view() const {
    return TensorView<const float, 4>(row.data(), {1, seqlen, 1, row.size()}, {0, 0, 0, 1});
  }
};

std::vector<float> values_of(const auto& tensor) { return {tensor.data(), tensor.data() + tensor.size()}; }

/// [1, seqlen, 1, 1]
Tensor<float, 4> column(index_t seqlen, auto value_of) {
  Tensor<float, 4> result({1, seqlen, 1, 1});
  for (index_t i = 0; i < seqlen; ++i) result.data()[i] = static_cast<float>(value_of(i));
  return result;
}

struct Forward {
  Tensor<float, 4> out;
  Tensor<float, 3> row_max, row_sum;
  Forward(const InputView<4>& q, const InputView<4>& k, const InputView<4>& v, const AttentionOptions& options = {})
      : out({1, q.shape(1), q.shape(2), v.shape(3)}),
        row_max({1, q.shape(2), q.shape(1)}),
        row_sum({1, q.shape(2), q.shape(1)}) {
    attention_forward({.q = q, .k = k, .v = v},
                      {.out = out.view(), .row_max = row_max.view(), .row_sum = row_sum.view()}, options);
  }
};

// Rows of each path: one and few of decode, tiles that split their keys, tiles.
constexpr index_t kRows[] = {1, 5, 16, 17};

TEST(AttentionLongSums, OfEqualScoresAndOneValue) {
  for (const index_t rows : kRows) {
    for (const auto& [width, value] : {std::pair{1, 0.1f}, {1, 0.7f}, {3, 1.0f / 3}, {64, 0.9f}, {128, 0.3f}}) {
      if (width > 3 && rows != 1 && rows != 17) continue;
      const Repeated q(rows, 1, 0), k(kMillion, 1, 0), v(kMillion, width, value);
      const Forward result(q.view(), k.view(), v.view());
      const std::string what = std::to_string(rows) + " rows of " + std::to_string(width);
      expect_long_sum("row_sum, " + what, values_of(result.row_sum), kMillion, kMillion);
      expect_long_sum("out, " + what, values_of(result.out), value, value);
    }
  }
}

// Weights that are not 1: the largest score stands first or in the middle, or a sink is above all of them.
TEST(AttentionLongSums, OfWeightsBelowOne) {
  const double weight = std::exp(-0.3f), count = kMillion - 1;
  const Repeated v(kMillion, 1, 0.7f);
  for (const index_t rows : kRows) {
    if (rows == 5) continue;  // as one row
    for (const index_t largest : {index_t{0}, kMillion / 2}) {
      const Repeated q(rows, 1, 1);
      const auto k = column(kMillion, [&](index_t j) { return j == largest ? 0.3 : 0; });
      const Forward result(q.view(), k.view(), v.view());
      expect_long_sum("row_sum", values_of(result.row_sum), 1 + count * weight, 1 + count * weight);
      expect_long_sum("out", values_of(result.out), 0.7f, 0.7f);
    }
    const Tensor<float, 1> sinks = [] {
      Tensor<float, 1> logits({1});
      logits(0) = 0.3f;
      return logits;
    }();
    AttentionOptions options;
    options.sinks = sinks.view();
    const Repeated q(rows, 1, 0), k(kMillion, 1, 0);
    const Forward result(q.view(), k.view(), v.view(), options);
    const double sum = 1 + kMillion * weight;
    expect_long_sum("row_sum with a sink", values_of(result.row_sum), sum, sum);
    expect_long_sum("out with a sink", values_of(result.out), 0.7f * (sum - 1) / sum, 0.7f);
  }
}

// A causal window in the middle of a long sequence; NaN in values that a mask hides.
TEST(AttentionLongSums, WithHiddenKeys) {
  const index_t keys = 200'000, left = 100'000;
  AttentionOptions options;
  options.mask.causal = Causal::bottom_right;
  options.mask.window_left = left - 1;
  for (const index_t rows : kRows) {
    const Repeated q(rows, 1, 0), k(keys, 1, 0), v(keys, 1, 0.7f);
    const Forward result(q.view(), k.view(), v.view(), options);
    expect_long_sum("row_sum of a window", values_of(result.row_sum), left, left);
    expect_long_sum("out of a window", values_of(result.out), 0.7f, 0.7f);

    Tensor<bool, 2> visible({1, keys});
    for (index_t j = 0; j < keys; ++j) visible(0, j) = j % 3 != 0;
    AttentionOptions masked;
    masked.mask.visible = visible.view();
    const auto poisoned = column(keys, [](index_t j) { return j % 3 != 0 ? 0.7f : kNan; });
    const Forward some(q.view(), k.view(), poisoned.view(), masked), same(q.view(), k.view(), v.view(), masked);
    expect_long_sum("out of some", values_of(some.out), 0.7f, 0.7f);
    EXPECT_EQ(values_of(some.out), values_of(same.out)) << rows << " rows";
  }
}

// Rows in company and alone, across several folds: what other rows see changes no bit, nor does the number of threads.
TEST(AttentionLongSums, HaveTheSameBitsInAnyTile) {
  const index_t keys = 40'000, heads = 4;
  Random random(run_seed());
  const auto fill = [&](std::array<index_t, 4> shape) {
    Tensor<float, 4> result(shape);
    for (index_t n = 0; n < result.size(); ++n) result.data()[n] = static_cast<float>(random.uniform());
    return result;
  };
  const auto q = fill({1, 60, heads, 2}), k = fill({1, keys, 1, 2}), v = fill({1, keys, 1, 3});
  Tensor<float, 1> sinks({heads});
  for (index_t h = 0; h < heads; ++h) sinks(h) = static_cast<float>(h) - 1;
  AttentionOptions options;
  options.mask.window_left = 18'000;  // as an explicit offset: rows far apart see other folds
  options.mask.causal = Causal::at_offset;
  options.sinks = sinks.view();
  Tensor<index_t, 1> offset({1});
  const auto run = [&](index_t first, index_t rows, Executor* threads) {
    offset(0) = 16'370 + first;  // row 14 is the first to see the second fold of sixteen lanes
    options.mask.diagonal_offset = offset.view();
    options.threads = threads;
    const TensorView<const float, 4> some(q.data() + first * heads * 2, {1, rows, heads, 2});
    return values_of(Forward(some, k.view(), v.view(), options).out);
  };
  const std::vector<float> all = run(0, 60, nullptr);
  Threads three(3);
  EXPECT_EQ(run(0, 60, &three), all);
  for (const auto& [first, rows] : {std::pair<index_t, index_t>{0, 6}, {5, 9}, {13, 7}, {11, 31}}) {
    const std::vector<float> part = run(first, rows, nullptr);
    const auto begin = all.begin() + first * heads * 3;
    EXPECT_EQ(part, std::vector<float>(begin, begin + rows * heads * 3)) << rows << " rows from " << first;
  }
}

// Two keys, a million queries. q = 0.3 and k = 0: every key has a probability of 1/2.
TEST(AttentionLongSums, OfGradientsOverQueries) {
  const index_t queries = kMillion + 77;
  const double n = static_cast<double>(queries);
  const Repeated q(queries, 1, 0.3f), dout(queries, 1, 0.7f);
  const Tensor<float, 4> k({1, 2, 1, 1});
  const auto v = column(2, [](index_t j) { return j == 0 ? 1 : 3; });
  const Tensor<float, 2> bias({1, 2}), scalar({1, 1});
  Tensor<float, 1> sinks({1}), slopes({1});
  sinks(0) = -40;  // without weight of its own
  AttentionOptions options;
  options.bias = bias.view();
  options.sinks = sinks.view();
  const Forward forward(q.view(), k.view(), v.view(), options);
  Tensor<float, 4> dq({1, queries, 1, 1}), dk({1, 2, 1, 1}), dv({1, 2, 1, 1});
  Tensor<float, 2> dbias({1, 2});
  const AttentionBackwardInput input{.q = q.view(),
                                     .k = k.view(),
                                     .v = v.view(),
                                     .out = forward.out.view(),
                                     .row_max = forward.row_max.view(),
                                     .row_sum = forward.row_sum.view(),
                                     .dout = dout.view()};
  attention_backward(input, {.dq = dq.view(), .dk = dk.view(), .dv = dv.view(), .dbias = dbias.view()}, options);
  expect_long_sum("dv", values_of(dv), 0.35 * n, 0.35 * n);
  const double ds = 0.35;  // P (dP - delta) = 1/2 * 0.7 * (v - 2)
  expect_long_sum("dk of the first key", {dk.data(), dk.data() + 1}, -ds * 0.3 * n, ds * 0.3 * n);
  expect_long_sum("dk of the second", {dk.data() + 1, dk.data() + 2}, ds * 0.3 * n, ds * 0.3 * n);
  expect_long_sum("dbias of the first key", {dbias.data(), dbias.data() + 1}, -ds * n, ds * n);
  expect_long_sum("dbias of the second", {dbias.data() + 1, dbias.data() + 2}, ds * n, ds * n);
}

// A million keys; half of them have k = v = 1, half 0. q = 0: they weigh the same.
TEST(AttentionLongSums, OfGradientsOverKeys) {
  const index_t rows = 17;
  const auto k = column(kMillion, [](index_t j) { return j % 2; });
  const Repeated q(rows, 1, 0), dout(rows, 1, 0.7f);
  const Forward forward(q.view(), k.view(), k.view());
  Tensor<float, 4> dq({1, rows, 1, 1});
  attention_backward({.q = q.view(),
                      .k = k.view(),
                      .v = k.view(),
                      .out = forward.out.view(),
                      .row_max = forward.row_max.view(),
                      .row_sum = forward.row_sum.view(),
                      .dout = dout.view()},
                     {.dq = dq.view()});
  expect_long_sum("dq", values_of(dq), 0.25 * 0.7f, 0.25 * 0.7f);
}

// Sinks and slopes: one number a head, summed over all rows.
TEST(AttentionLongSums, OfGradientsOfAHead) {
  const index_t queries = kMillion;
  const Repeated q(queries, 1, 0), dout(queries, 1, 0.7f);
  const Tensor<float, 4> k({1, 2, 1, 1});
  const auto v = column(2, [](index_t j) { return j == 0 ? 1 : 3; });
  Tensor<float, 1> sinks({1}), slopes({1}), dsinks({1}), dslopes({1});
  sinks(0) = 0.3f;
  slopes(0) = 0;
  AttentionOptions options;
  options.sinks = sinks.view();
  options.alibi_slopes = slopes.view();
  options.mask.causal = Causal::at_offset;
  Tensor<index_t, 1> offset({1});
  offset(0) = 1;  // all rows see both keys
  options.mask.diagonal_offset = offset.view();
  const Forward forward(q.view(), k.view(), v.view(), options);
  attention_backward({.q = q.view(),
                      .k = k.view(),
                      .v = v.view(),
                      .out = forward.out.view(),
                      .row_max = forward.row_max.view(),
                      .row_sum = forward.row_sum.view(),
                      .dout = dout.view()},
                     {.dsinks = dsinks.view(), .dslopes = dslopes.view()}, options);
  const double sum = 1 + 2 * std::exp(-0.3f), share = 1 / sum, p = std::exp(-0.3f) / sum;
  const double delta = 0.7f * 4 * p;  // dout * out
  const double n = static_cast<double>(queries);
  expect_long_sum("dsinks", values_of(dsinks), -share * delta * n, share * delta * n);
  // dS of the two keys, times distances i + 1 and i.
  const double ds0 = p * (0.7f - delta), ds1 = p * (3 * 0.7f - delta);
  const double i_sum = n * (n - 1) / 2;
  expect_long_sum("dslopes", values_of(dslopes), -(ds0 * (i_sum + n) + ds1 * i_sum),
                  (std::abs(ds0) + std::abs(ds1)) * i_sum);
}

}  // namespace
}  // namespace multihead::test
