// Finite input raises no flag of the floating point unit that means a fault: no invalid operation, no division by zero,
// no overflow, whatever is hidden, padded or computed in lanes without a row. So a program may trap them.
#include <gtest/gtest.h>

#include <cfenv>

#include "tests/support/bitwise_configs.hpp"
#include "tests/support/small_attention.hpp"

namespace multihead::test {
namespace {

constexpr int kFaults = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;

std::string faults() {
  std::string names;
  if (std::fetestexcept(FE_INVALID)) names += " invalid";
  if (std::fetestexcept(FE_DIVBYZERO)) names += " division by zero";
  if (std::fetestexcept(FE_OVERFLOW)) names += " overflow";
  return names;
}

/// The core with a look at the flags after each call.
Engine watched_engine(const std::string& what) {
  const Engine core = core_engine();
  return {[=](const auto& input, const auto& output, const auto& options) {
            std::feclearexcept(kFaults);
            core.forward(input, output, options);
            EXPECT_EQ(faults(), "") << "forward: " << what;
          },
          [=](const auto& input, const auto& gradients, const auto& options) {
            std::feclearexcept(kFaults);
            core.backward(input, gradients, options);
            EXPECT_EQ(faults(), "") << "backward: " << what;
          }};
}

void expect_no_faults(const AttentionProblem& problem) {
  const Engine engine = watched_engine(problem.config.text());
  const ForwardResult saved = problem.forward(engine);
  if (problem.pages == 0) problem.backward(engine, saved);
}

class AttentionFlags : public testing::TestWithParam<NamedConfig> {};

TEST_P(AttentionFlags, OfAnyOptions) { expect_no_faults(AttentionProblem(GetParam().config, run_seed())); }

INSTANTIATE_TEST_SUITE_P(, AttentionFlags, testing::ValuesIn(bitwise_configs()), config_name);

TEST(AttentionFlagsOf, PlainShapes) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    for (const index_t queries : {1, 5, 13, 50, 131}) {
      for (const index_t keys : {0, 1, 60, 300, 1100}) {
        for (const Causal causal : {Causal::off, Causal::bottom_right, Causal::top_left}) {
          for (const Probs probs : {Probs::none, Probs::all}) {
            expect_no_faults(AttentionProblem({.batch = 1,
                                               .seqlen_q = queries,
                                               .seqlen_kv = keys,
                                               .num_heads = 2,
                                               .head_dim = 5,
                                               .head_dim_v = 3,
                                               .dtype = dtype,
                                               .causal = causal,
                                               .kv_heads = KvHeads::one,
                                               .probs = probs},
                                              run_seed()));
          }
        }
      }
    }
  }
}

// Rows that see nothing, or nothing in some of the key tiles.
TEST(AttentionFlagsOf, EmptyRowsAndTiles) {
  for (const index_t queries : {1, 3, 60}) {
    for (const Bias bias : {Bias::none, Bias::with_infinite, Bias::lowest}) {
      for (const Sinks sinks : {Sinks::none, Sinks::some_infinite}) {
        expect_no_faults(AttentionProblem({.batch = 3,
                                           .seqlen_q = queries,
                                           .seqlen_kv = 1500,
                                           .num_heads = 2,
                                           .head_dim = 4,
                                           .head_dim_v = 4,
                                           .values = Values::peaked,
                                           .softcap = 0.01,
                                           .bias = bias,
                                           .alibi = true,
                                           .offsets = Offsets::given,
                                           .window_left = 20,
                                           .window_right = 3,
                                           .visible = Visible::full,
                                           .lengths = Lengths::q_and_kv,
                                           .sinks = sinks,
                                           .probs = Probs::all},
                                          run_seed()));
      }
    }
  }
}

// Scores near both ends of what f32 holds: their differences are beyond it, their weights are 0 and 1.
TEST(AttentionFlagsOf, HugeAndTinyNumbers) {
  for (const index_t queries : {1, 60}) {
    for (const std::optional<double> softcap : {std::optional<double>(), {1e-30}, {1e30}}) {
      AttentionProblem problem({.batch = 1,
                                .seqlen_q = queries,
                                .seqlen_kv = 300,
                                .num_heads = 2,
                                .head_dim = 1,
                                .head_dim_v = 4,
                                .softcap = softcap,
                                .bias = Bias::full,
                                .causal = Causal::bottom_right,
                                .sinks = Sinks::given,
                                .probs = Probs::all},
                               run_seed());
      problem.q.generate([](auto) { return 1.0; });
      for (const double size : {1.5e38, 1e-38, 1e-44}) {
        problem.k.generate([&](auto at) { return at[1] % 3 == 0 ? size : -size; });
        problem.bias.generate([&](auto at) { return at[3] % 7 == 1 ? -size : size; });
        problem.sinks.generate([&](auto h) { return h[0] == 0 ? -3e38 : 3e38; });
        expect_no_faults(problem);
        const ForwardResult result = problem.forward(core_engine());
        for (const double value : result.probs.values()) ASSERT_TRUE(value >= 0 && value <= 1);
      }
    }
  }
}

TEST(AttentionFlagsOf, Merging) {
  constexpr float kLargest = 3e38f, kNone = -std::numeric_limits<float>::infinity();
  const auto out = tensor({1, 5, 1, 1}, {1, 2, 3, 4, 5});
  const auto lse_a = tensor({1, 1, 5}, {kNone, kNone, kLargest, -kLargest, 0}),
             lse_b = tensor({1, 1, 5}, {kNone, 1, -kLargest, kLargest, 1e-40f});
  Tensor<float, 4> joined({1, 5, 1, 1});
  Tensor<float, 3> lse({1, 1, 5});
  std::feclearexcept(kFaults);
  attention_merge({out.view(), lse_a.view()}, {out.view(), lse_b.view()}, {.out = joined.view(), .lse = lse.view()});
  EXPECT_EQ(faults(), "");
  EXPECT_EQ(list(joined), (std::vector<float>{0, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace multihead::test
