// NaN and infinities in every operand, in the first key tile and far behind it, visible and hidden: the results are
// those of the definition on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/error_rule.hpp"
#include "tests/support/small_attention.hpp"

namespace multihead::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr index_t kKeys = 290;

/// Few rows, a tile of rows, and several; probs, masks, dropout and two kinds of numbers beside them.
std::vector<AttentionProblem> problems() {
  std::vector<AttentionProblem> all;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const index_t queries : {2, 50}) {
      for (const bool masked : {false, true}) {
        if (dtype == DType::f64 && (queries == 2 || !masked)) continue;  // the reference is slow in long double
        all.emplace_back(AttentionConfig{.batch = 1,
                                         .seqlen_q = queries,
                                         .seqlen_kv = kKeys,
                                         .num_heads = 2,
                                         .head_dim = 3,
                                         .head_dim_v = 4,
                                         .dtype = dtype,
                                         .bias = masked ? Bias::with_infinite : Bias::full,
                                         .alibi = true,
                                         .causal = masked ? Causal::bottom_right : Causal::off,
                                         .visible = masked ? Visible::full : Visible::none,
                                         .sinks = Sinks::given,
                                         .dropout = masked ? 0.3 : 0.0,
                                         .kv_heads = KvHeads::one,
                                         .probs = Probs::all},
                         run_seed());
        // No weight is so small that it is rounded to 0: 0 times infinity is another number.
        all.back().slopes.generate([](auto h) { return 0.01 * static_cast<double>(h[0] + 1); });
      }
    }
  }
  return all;
}

/// Calls change(problem, place) for keys in the first tile and behind it, and compares forward and backward.
template <class Change>
void expect_exact_after(const Change& change) {
  for (const AttentionProblem& problem : problems()) {
    for (const index_t key : {1, 285}) {
      AttentionProblem changed = problem;
      change(changed, key);
      expect_core_exact(changed);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(AttentionNonFinite, InTheBias) {
  for (const double number : {kNan, kInfinity}) {
    expect_exact_after([&](AttentionProblem& p, index_t key) {
      p.bias.set({0, 1, p.config.seqlen_q - 1, key}, number);
    });
  }
}

TEST(AttentionNonFinite, InTheBiasAlone) {
  // Without ALiBi the keys go through other code.
  for (const double number : {kNan, kInfinity}) {
    expect_exact_after([&](AttentionProblem& p, index_t key) {
      p.slopes = {};
      p.bias.set({0, 1, p.config.seqlen_q - 1, key}, number);
    });
  }
}

TEST(AttentionNonFinite, InAQuery) {
  expect_exact_after([](AttentionProblem& p, index_t) { p.q.set({0, 1, 0, 2}, kNan); });
}

TEST(AttentionNonFinite, InAKey) {
  for (const double number : {kNan, kInfinity}) {
    expect_exact_after([&](AttentionProblem& p, index_t key) { p.k.set({0, key, 0, 1}, number); });
  }
}

TEST(AttentionNonFinite, InAValue) {
  for (const double number : {kNan, -kInfinity}) {
    expect_exact_after([&](AttentionProblem& p, index_t key) { p.v.set({0, key, 0, 1}, number); });
  }
}

TEST(AttentionNonFinite, InASink) {
  for (const double number : {kNan, kInfinity}) {
    expect_exact_after([&](AttentionProblem& p, index_t) { p.sinks.set({1}, number); });
  }
}

TEST(AttentionNonFinite, InASlope) {
  for (const double number : {kNan, kInfinity, -kInfinity}) {
    expect_exact_after([&](AttentionProblem& p, index_t) { p.slopes.set({1}, number); });
  }
}

TEST(AttentionNonFinite, InCappedScores) {
  for (const double number : {kNan, kInfinity}) {
    expect_exact_after([&](AttentionProblem& p, index_t key) {
      p.config.softcap = 1.5;
      p.k.set({0, key, 0, 1}, number);
    });
  }
}

TEST(AttentionNonFinite, AVisibleNanBiasMakesItsRowNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto bias = tensor({1, 1, 1, 3}, {0, nan, 0});
  for (const index_t queries : {1, 20}) {
    const Means result = means(queries, {1, 2, 4}, {.bias = bias.view()});
    for (const float value : result.out) EXPECT_TRUE(std::isnan(value));
    for (const float value : result.lse) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(AttentionNonFinite, APartThatIsNanIsNotAnEmptyPart) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), none = -std::numeric_limits<float>::infinity();
  const auto out = tensor({1, 4, 1, 1}, {1, 1, 1, 1});
  const auto a = tensor({1, 1, 4}, {none, nan, nan, 1}), b = tensor({1, 1, 4}, {nan, none, 1, nan});
  Tensor<float, 4> joined({1, 4, 1, 1});
  Tensor<float, 3> lse({1, 1, 4});
  attention_merge({out.view(), a.view()}, {out.view(), b.view()}, {.out = joined.view(), .lse = lse.view()});
  for (index_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(std::isnan(joined(0, i, 0, 0))) << i;
    EXPECT_TRUE(std::isnan(lse(0, 0, i))) << i;
  }
}

}  // namespace
}  // namespace multihead::test
