// What is hidden is never read into a result: NaN, infinities and huge numbers in hidden keys, values, biases, rows of
// q and dout, tails of caches and unused pages change no bit of any output or gradient. What is visible shows.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/problem.hpp"
#include "tests/support/bitwise_configs.hpp"

namespace multihead::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Visibility = reference::Problem<double>;

/// Calls fn(b, h, i, j) for every visible pair.
template <class Fn>
void for_each_visible(const AttentionProblem& problem, const Visibility& rules, Fn fn) {
  for (index_t b = 0; b < problem.config.batch; ++b) {
    for (index_t h = 0; h < problem.config.num_heads; ++h) {
      for (index_t i = 0; i < problem.num_queries(b); ++i) {
        for (index_t j = 0; j < problem.num_keys(b); ++j) {
          if (rules.visible(b, h, i, j)) fn(b, h, i, j);
        }
      }
    }
  }
}

/// Marks what a result may depend on. 1 = used.
struct Used {
  AnyTensor<4> q, k, bias;  // k stands for v as well; last axis of q and k has extent 1
};

Used used_entries(const AttentionProblem& problem) {
  const AttentionOptions options = problem.options();
  const auto flags = [](std::array<index_t, 4> shape) {
    AnyTensor<4> result(DType::boolean, shape);
    result.generate([](auto) { return 0.0; });
    return result;
  };
  Used used{flags({problem.q.shape()[0], problem.q.shape()[1], problem.q.shape()[2], 1}),
            flags({problem.k.shape()[0], problem.k.shape()[1], problem.k.shape()[2], 1}),
            {}};
  const Visibility rules(problem.q.in(), problem.k.in(), problem.v.in(), options);
  for_each_visible(problem, rules, [&](index_t b, index_t h, index_t i, index_t j) {
    const auto query = rules.query_place(b, i), key = rules.key_place(b, j);
    used.q.set({query.batch, query.token, h, 0}, 1);
    used.k.set({key.batch, key.token, rules.kv_head(h), 0}, 1);
  });
  if (problem.bias) {
    used.bias = flags(problem.bias.shape());
    AttentionOptions others = options;
    others.bias = {};
    const Visibility other_rules(problem.q.in(), problem.k.in(), problem.v.in(), others);
    for_each_visible(problem, other_rules, [&](index_t b, index_t h, index_t i, index_t j) {
      std::array<index_t, 4> at{b, h, i, j};
      for (int axis = 0; axis < 4; ++axis) at[axis] = problem.bias.shape()[axis] == 1 ? 0 : at[axis];
      used.bias.set(at, 1);
    });
  }
  return used;
}

/// Overwrites the rows of `operand` that are not used; returns how many entries that were.
int poison_rows(AnyTensor<4>& operand, const AnyTensor<4>& used, const std::vector<double>& poisons) {
  int count = 0;
  operand.generate([&](auto index) {
    if (used.get({index[0], index[1], index[2], used.shape()[3] == 1 ? 0 : index[3]}) != 0) return operand.get(index);
    return poisons[static_cast<std::size_t>(count++) % poisons.size()];
  });
  return count;
}

class AttentionPoison : public testing::TestWithParam<NamedConfig> {};

TEST_P(AttentionPoison, HiddenSlotsChangeNoBit) {
  AttentionConfig config = GetParam().config;
  if (config.lengths == Lengths::none) config.lengths = Lengths::q_and_kv;
  const AttentionProblem clean(config, run_seed());
  const Used used = used_entries(clean);
  const ForwardResult expected = clean.forward(core_engine());
  BackwardResult expected_gradients;
  if (clean.pages == 0) expected_gradients = clean.backward(core_engine(), expected);

  for (const std::vector<double>& poisons : {std::vector{kNan}, std::vector{kInfinity}, std::vector{-kInfinity},
                                             std::vector{6e4, kNan, -6e4, kInfinity, kNan}}) {
    AttentionProblem poisoned = clean;
    int count = poison_rows(poisoned.q, used.q, poisons);
    poison_rows(poisoned.dout, used.q, poisons);
    count += poison_rows(poisoned.k, used.k, poisons);
    poison_rows(poisoned.v, used.k, poisons);
    if (clean.bias) poison_rows(poisoned.bias, used.bias, poisons);
    EXPECT_TRUE(count > 0 || config.arrangement == Arrangement::packed) << "nothing was hidden";

    const std::string what = clean.config.text();
    const ForwardResult result = poisoned.forward(core_engine());
    ASSERT_EQ(result.out.bytes(), expected.out.bytes()) << what;
    ASSERT_EQ(result.probs.bytes(), expected.probs.bytes()) << what;
    ASSERT_EQ(result.row_max.bytes(), expected.row_max.bytes()) << what;
    ASSERT_EQ(result.row_sum.bytes(), expected.row_sum.bytes()) << what;
    ASSERT_EQ(result.lse.bytes(), expected.lse.bytes()) << what;
    if (clean.pages > 0) continue;
    const BackwardResult gradients = poisoned.backward(core_engine(), result);
    ASSERT_EQ(gradients.dq.bytes(), expected_gradients.dq.bytes()) << what;
    ASSERT_EQ(gradients.dk.bytes(), expected_gradients.dk.bytes()) << what;
    ASSERT_EQ(gradients.dv.bytes(), expected_gradients.dv.bytes()) << what;
    ASSERT_EQ(gradients.dbias.bytes(), expected_gradients.dbias.bytes()) << what;
    ASSERT_EQ(gradients.dsinks.bytes(), expected_gradients.dsinks.bytes()) << what;
    ASSERT_EQ(gradients.dslopes.bytes(), expected_gradients.dslopes.bytes()) << what;
  }
}

INSTANTIATE_TEST_SUITE_P(, AttentionPoison, testing::ValuesIn(bitwise_configs()), config_name);

/// Bits of `after` equal those of `before` except where `may_be_nan` says so, where there must be NaN.
template <int R>
void expect_nan_only_where(const AnyTensor<R>& after, const AnyTensor<R>& before,
                           const std::function<bool(std::array<index_t, R>)>& nan_at) {
  for (index_t n = 0; n < after.size(); ++n) {
    const auto index = after.index_of(n);
    if (nan_at(index)) {
      ASSERT_TRUE(std::isnan(after.get(index))) << "element " << n;
    } else {
      ASSERT_EQ(after.get(index), before.get(index)) << "element " << n;
    }
  }
}

AttentionProblem causal_problem(DType dtype, index_t queries) {
  return AttentionProblem({.batch = 2,
                           .seqlen_q = queries,
                           .seqlen_kv = 140,
                           .num_heads = 4,
                           .dtype = dtype,
                           .causal = Causal::bottom_right,
                           .kv_heads = KvHeads::grouped,
                           .probs = Probs::all},
                          run_seed());
}

TEST(AttentionNan, InAVisibleQueryItsRowAndNothingElse) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const index_t queries : {1, 60}) {
      AttentionProblem problem = causal_problem(dtype, queries);
      const auto before = problem.forward(core_engine());
      const index_t row = queries / 2;
      problem.q.set({1, row, 2, 3}, kNan);
      const auto after = problem.forward(core_engine());
      expect_nan_only_where<4>(after.out, before.out,
                               [&](auto at) { return at[0] == 1 && at[1] == row && at[2] == 2; });
      expect_nan_only_where<3>(after.lse, before.lse,
                               [&](auto at) { return at[0] == 1 && at[1] == 2 && at[2] == row; });
      const index_t seen = 140 - queries + row;
      expect_nan_only_where<4>(after.probs, before.probs,
                               [&](auto at) { return at[0] == 1 && at[1] == 2 && at[2] == row && at[3] <= seen; });
    }
  }
}

TEST(AttentionNan, InAVisibleKeyTheRowsThatSeeIt) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const index_t queries : {1, 60}) {
      AttentionProblem problem = causal_problem(dtype, queries);
      const auto before = problem.forward(core_engine());
      problem.k.set({0, 110, 1, 0}, kNan);
      const auto after = problem.forward(core_engine());
      const auto sees = [&](index_t b, index_t h, index_t i) {
        return b == 0 && h / 2 == 1 && 110 <= i + 140 - queries;
      };
      expect_nan_only_where<4>(after.out, before.out, [&](auto at) { return sees(at[0], at[2], at[1]); });
      expect_nan_only_where<3>(after.lse, before.lse, [&](auto at) { return sees(at[0], at[1], at[2]); });
    }
  }
}

TEST(AttentionNan, InAVisibleValueItsColumnOfTheRowsThatSeeIt) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const index_t queries : {1, 60}) {
      AttentionProblem problem = causal_problem(dtype, queries);
      const auto before = problem.forward(core_engine());
      problem.v.set({0, 110, 1, 5}, kNan);
      const auto after = problem.forward(core_engine());
      expect_nan_only_where<4>(after.out, before.out, [&](auto at) {
        return at[0] == 0 && at[2] / 2 == 1 && at[3] == 5 && 110 <= at[1] + 140 - queries;
      });
      EXPECT_EQ(after.lse.bytes(), before.lse.bytes());
      EXPECT_EQ(after.probs.bytes(), before.probs.bytes());
    }
  }
}

// Even where its probability is 0 in this precision: the rule is what is seen, not how much.
TEST(AttentionNan, InAValueOfVanishingProbability) {
  AttentionProblem problem({.batch = 1, .seqlen_q = 30, .seqlen_kv = 300, .num_heads = 1}, run_seed());
  problem.q.generate([](auto) { return 10.0; });
  problem.k.generate([](auto index) { return index[1] == 200 ? -100.0 : 1.0; });
  problem.v.set({0, 200, 0, 1}, kNan);
  const auto result = problem.forward(core_engine());
  for (index_t i = 0; i < 30; ++i) {
    for (index_t d = 0; d < 8; ++d) EXPECT_EQ(std::isnan(result.out.get({0, i, 0, d})), d == 1);
  }
}

TEST(AttentionNan, InfiniteScores) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const index_t keys : {3, 200, 1500}) {
      AttentionProblem problem(
          {.batch = 1, .seqlen_q = 3, .seqlen_kv = keys, .num_heads = 1, .head_dim = 1, .dtype = dtype}, run_seed());
      problem.q.generate([](auto index) { return index[1] == 0 ? 1.0 : index[1] == 1 ? -1.0 : 0.5; });
      problem.k.generate([&](auto) { return kInfinity; });  // row 0 and 2: +inf, row 1: all -inf
      auto result = problem.forward(core_engine());
      for (index_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(std::isnan(result.out.get({0, i, 0, 0}))) << "row " << i << " of " << keys << " keys";
        EXPECT_TRUE(std::isnan(result.lse.get({0, 0, i}))) << "row " << i << " of " << keys << " keys";
      }
      problem.k.set({0, 1, 0, 0}, 0.25);  // one finite score among -inf is all that counts
      result = problem.forward(core_engine());
      EXPECT_EQ(result.out.get({0, 1, 0, 0}), problem.v.get({0, 1, 0, 0}));
      EXPECT_TRUE(std::isnan(result.out.get({0, 0, 0, 0})));
      expect_nan_only_where<3>(result.lse, result.lse, [](auto at) { return at[2] != 1; });
    }
  }
}

}  // namespace
}  // namespace multihead::test
