// Every instruction set of this machine: the forced one runs, and all agree with the reference.
#include <cstdlib>

#include "kernels/kernels.hpp"
#include "multihead/instruction_set.hpp"
#include "tests/support/error_rule.hpp"
#include "tests/support/target.hpp"

namespace multihead::test {
namespace {

const testing::Environment* const environment = testing::AddGlobalTestEnvironment(new TargetEnvironment);

class AttentionTarget : public testing::Test {
  // Whatever a test forced, the others run on what the whole program was told to.
  void TearDown() override {
    const char* const wanted = std::getenv("MULTIHEAD_TEST_TARGET");
    set_instruction_set(wanted != nullptr ? wanted : instruction_sets().front());
  }
};

TEST_F(AttentionTarget, TheForcedOneRuns) {
  const auto names = instruction_sets();
  ASSERT_FALSE(names.empty());
  std::printf("targets of this machine:");
  for (const auto& name : names) std::printf(" %s", name.c_str());
  std::printf("\n");
  for (const auto& name : names) {
    set_instruction_set(name);
    EXPECT_EQ(instruction_set(), name);
    EXPECT_EQ(std::string("N_") + name, kernels::table<float>().target);
    EXPECT_EQ(std::string("N_") + name, kernels::table<double>().target);
  }
}

TEST_F(AttentionTarget, EachIsExact) {
  for (const auto& name : instruction_sets()) {
    set_instruction_set(name);
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      AttentionConfig config{.seqlen_q = 51,
                             .seqlen_kv = 133,
                             .num_heads = 4,
                             .head_dim = 21,
                             .head_dim_v = 13,
                             .dtype = dtype,
                             .softcap = 3.0,
                             .bias = Bias::full,
                             .alibi = true,
                             .causal = Causal::bottom_right,
                             .visible = Visible::full,
                             .lengths = Lengths::q_and_kv,
                             .sinks = Sinks::given,
                             .dropout = 0.2,
                             .kv_heads = KvHeads::grouped,
                             .probs = Probs::all,
                             .dlse = true};
      expect_core_exact(AttentionProblem(config, run_seed()));
      config.seqlen_q = 1;
      config.seqlen_kv = 1100;
      expect_core_exact(AttentionProblem(config, run_seed()));
    }
  }
}

// Lane widths differ, sums over features and keys do not: targets may round differently, by no more than a plain loop.
TEST_F(AttentionTarget, DropoutKeepsTheSameElements) {
  const AttentionProblem problem({.seqlen_q = 30, .seqlen_kv = 150, .dropout = 0.5}, run_seed());
  std::vector<double> first;
  for (const auto& name : instruction_sets()) {
    set_instruction_set(name);
    const auto out = problem.forward(core_engine()).out.values();
    if (first.empty()) first = out;
    for (std::size_t n = 0; n < out.size(); ++n) ASSERT_NEAR(out[n], first[n], 1e-5);
  }
}

}  // namespace
}  // namespace multihead::test
