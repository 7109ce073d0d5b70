// Every output beyond one group of query tiles and one segment of key tiles, where state is put away and taken up
// again.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/error_rule.hpp"

namespace multihead::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Few pairs are visible, so the reference's loops stay short.
TEST(AttentionFar, SeveralGroupsAndSegments) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    expect_core_exact(AttentionProblem({.batch = 1,
                                        .seqlen_q = 2100,
                                        .seqlen_kv = 2100,
                                        .num_heads = 1,
                                        .head_dim = 64,
                                        .head_dim_v = 64,
                                        .dtype = dtype,
                                        .values = Values::peaked,
                                        .bias = Bias::per_key,
                                        .alibi = true,
                                        .causal = Causal::bottom_right,
                                        .window_left = 30,
                                        .sinks = Sinks::given},
                                       run_seed()));
  }
}

TEST(AttentionFar, SeveralGroupsWithProbsAndAllGradients) {
  for (const index_t left : {20, 250}) {
    expect_core_exact(AttentionProblem({.batch = 1,
                                        .seqlen_q = 600,
                                        .seqlen_kv = 600,
                                        .num_heads = 2,
                                        .head_dim = 8,
                                        .head_dim_v = 8,
                                        .values = Values::peaked,
                                        .bias = Bias::full,
                                        .alibi = true,
                                        .causal = Causal::bottom_right,
                                        .window_left = left,
                                        .sinks = Sinks::given,
                                        .kv_heads = KvHeads::one,
                                        .probs = Probs::all,
                                        .dlse = true},
                                       run_seed()));
  }
}

TEST(AttentionFar, ProbsAreZeroOutsideTheWindowAndAddUpToOne) {
  for (const index_t width : {8, 64}) {
    for (const index_t left : {0, 30, 200}) {
      const AttentionProblem problem({.batch = 1,
                                      .seqlen_q = 600,
                                      .seqlen_kv = 600,
                                      .num_heads = 2,
                                      .head_dim = width,
                                      .head_dim_v = width,
                                      .causal = Causal::bottom_right,
                                      .window_left = left,
                                      .probs = Probs::all},
                                     run_seed());
      const ForwardResult result = problem.forward(core_engine());
      for (index_t h = 0; h < 2; ++h) {
        for (index_t i = 0; i < 600; ++i) {
          double sum = 0;
          for (index_t j = 0; j < 600; ++j) {
            const double p = result.probs.get({0, h, i, j});
            if (j > i || j < i - left) {
              ASSERT_EQ(p, 0) << "query " << i << " key " << j;
            }
            sum += p;
          }
          ASSERT_NEAR(sum, 1, 1e-5) << "query " << i;
        }
      }
    }
  }
}

// A row that sees nothing in the first tiles, and scores far below 0 later.
TEST(AttentionFar, RowsThatSeeTheirFirstKeyLate) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const index_t queries : {1, 3, 60}) {
      AttentionProblem problem({.batch = 1,
                                .seqlen_q = queries,
                                .seqlen_kv = 600,
                                .num_heads = 1,
                                .head_dim = 2,
                                .head_dim_v = 2,
                                .dtype = dtype,
                                .bias = Bias::full,
                                .visible = Visible::full,
                                .probs = Probs::all},
                               run_seed());
      problem.visible.generate([&](auto at) { return at[3] > 580 || (at[2] % 2 == 1 && at[3] > 200); });
      for (const double size : {150.0, 1000.0, 1e30}) {
        problem.bias.generate([&](auto at) { return -size * (1 + static_cast<double>(at[3] % 3)); });
        expect_core_exact(problem);
      }
    }
  }
}

// A NaN or infinity in a value sends a tile through code of its own, which must rescale what is there as the other
// does.
TEST(AttentionFar, AValueThatIsNoNumberLeavesOtherRowsAndColumnsAlone) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const index_t queries : {5, 60, 600}) {
      for (const index_t key : {150, 410, 590}) {
        AttentionProblem problem({.batch = 1,
                                  .seqlen_q = queries,
                                  .seqlen_kv = 600,
                                  .num_heads = 1,
                                  .head_dim = 8,
                                  .head_dim_v = 8,
                                  .dtype = dtype,
                                  .values = Values::peaked,
                                  .causal = Causal::bottom_right},
                                 run_seed());
        // Scores that grow with the key: the maximum rises in every tile.
        problem.q.generate([&](auto at) { return at[3] == 0 ? 1.0 : problem.q.get(at) / 8; });
        problem.k.generate([&](auto at) { return at[3] == 0 ? static_cast<double>(at[1]) / 16 : problem.k.get(at); });
        const auto before = problem.forward(core_engine());
        problem.v.set({0, key, 0, 3}, kNan);
        const auto after = problem.forward(core_engine());
        for (index_t i = 0; i < queries; ++i) {
          for (index_t d = 0; d < 8; ++d) {
            const double x = after.out.get({0, i, 0, d});
            if (d == 3 && key <= i + 600 - queries) {
              ASSERT_TRUE(std::isnan(x)) << "query " << i;
            } else {
              ASSERT_EQ(x, before.out.get({0, i, 0, d})) << "query " << i << " feature " << d << " key " << key;
            }
          }
        }
        EXPECT_EQ(after.lse.bytes(), before.lse.bytes());
      }
    }
  }
}

// The same of keys, queries and dout in the backward: dq, dk and dv of all others keep their bits.
TEST(AttentionFar, AKeyThatIsNoNumberLeavesGradientsOfRowsThatDoNotSeeItAlone) {
  AttentionProblem problem({.batch = 1,
                            .seqlen_q = 600,
                            .seqlen_kv = 600,
                            .num_heads = 1,
                            .causal = Causal::bottom_right,
                            .window_left = 40},
                           run_seed());
  const auto saved = problem.forward(core_engine());
  const auto before = problem.backward(core_engine(), saved);
  constexpr index_t kKey = 410;
  problem.k.set({0, kKey, 0, 3}, kNan);
  const auto after = problem.backward(core_engine(), problem.forward(core_engine()));
  for (index_t n = 0; n < 600; ++n) {
    const bool row_sees = n >= kKey && n <= kKey + 40, shares_a_row = n >= kKey - 40 && n <= kKey + 40;
    for (index_t d = 0; d < 8; ++d) {
      ASSERT_TRUE(row_sees ? std::isnan(after.dq.get({0, n, 0, d}))
                           : after.dq.get({0, n, 0, d}) == before.dq.get({0, n, 0, d}))
          << "dq of query " << n;
      ASSERT_TRUE(shares_a_row ? std::isnan(after.dv.get({0, n, 0, d}))
                               : after.dv.get({0, n, 0, d}) == before.dv.get({0, n, 0, d}))
          << "dv of key " << n;
    }
  }
}

TEST(AttentionFar, GradientOfTheBiasOfMappedHeads) {
  AttentionProblem problem({.batch = 2,
                            .seqlen_q = 40,
                            .seqlen_kv = 150,
                            .num_heads = 4,
                            .bias = Bias::full,
                            .causal = Causal::bottom_right,
                            .kv_heads = KvHeads::mapped},
                           run_seed());
  for (const std::vector<index_t>& map : {std::vector<index_t>{2, 0, 1, 0}, {1, 1, 1, 2}, {0, 2, 2, 1}, {2, 2, 2, 2}}) {
    problem.kv_head_of = map;
    expect_core_exact(problem);
  }
}

}  // namespace
}  // namespace multihead::test
