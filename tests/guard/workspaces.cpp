// Each task stays in its own workspace, on every instruction set: all tasks run under the last worker, whose part ends
// at a page that nobody may touch.
#include <gtest/gtest.h>

#include "multihead/instruction_set.hpp"
#include "multihead/matmul.hpp"
#include "multihead/nn/feed_forward.hpp"
#include "tests/guard/guarded_memory.hpp"
#include "tests/support/all_pairs.hpp"
#include "tests/support/attention_problem.hpp"

namespace multihead::test {
namespace {

class LastWorker final : public Executor {
 public:
  explicit LastWorker(int num_threads) : num_threads_(num_threads) {}
  int num_threads() const override { return num_threads_; }
  void run(index_t num_tasks, const std::function<void(index_t, int)>& task) override {
    for (index_t index = 0; index < num_tasks; ++index) task(index, num_threads_ - 1);
  }

 private:
  int num_threads_;
};

class GuardedWorkspaces : public testing::Test {
  void TearDown() override {
    set_instruction_set(instruction_sets().front());
    EXPECT_GT(GuardedMemory::count(), 0) << "nothing was guarded";
  }
};

void run(AttentionProblem& problem, Executor* threads) {
  problem.threads = threads;
  const GuardedMemory guarded;
  const ForwardResult result = problem.forward(core_engine());
  if (problem.config.arrangement != Arrangement::paged) problem.backward(core_engine(), result);
}

// With no keys the smaller of two blocks, which holds one group of query tiles, once needed more than the larger.
TEST_F(GuardedWorkspaces, OfNoKeys) {
  LastWorker last(2);
  for (const auto& target : instruction_sets()) {
    set_instruction_set(target);
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
      AttentionProblem problem({.batch = 1,
                                .seqlen_q = 200,
                                .seqlen_kv = 0,
                                .num_heads = 4,
                                .head_dim = 128,
                                .head_dim_v = 128,
                                .dtype = dtype,
                                .probs = Probs::all},
                               run_seed());
      run(problem, &last);
      for (const double value : problem.forward(core_engine()).out.values()) ASSERT_EQ(value, 0);
    }
  }
}

TEST_F(GuardedWorkspaces, OfAnyShape) {
  using std::vector;
  const vector<index_t> queries{1, 3, 9, 17, 60, 200, 401}, keys{0, 1, 60, 131, 300, 1025, 2500},
      widths{1, 16, 17, 33, 64, 129};
  const vector<DType> dtypes{DType::f32, DType::f64, DType::bf16, DType::f16};
  const vector<Arrangement> arrangements{Arrangement::bshd, Arrangement::bhsd, Arrangement::packed, Arrangement::paged};
  const vector<KvHeads> kv_heads{KvHeads::equal, KvHeads::one, KvHeads::mapped};
  const vector<Causal> causals{Causal::off, Causal::bottom_right};
  const vector<Bias> biases{Bias::none, Bias::full, Bias::per_key};
  const vector<Probs> probs{Probs::none, Probs::all};
  const vector<int> workers{1, 2, 7};
  Random random(run_seed());
  const auto rows = all_pairs({7, 7, 6, 6, 4, 4, 3, 2, 3, 2, 3, 2}, random);
  for (const auto& target : instruction_sets()) {
    set_instruction_set(target);
    for (const vector<int>& row : rows) {
      const auto at = [&](const auto& levels, std::size_t factor) {
        return levels[static_cast<std::size_t>(row[factor])];
      };
      AttentionConfig config{.batch = 2,
                             .seqlen_q = at(queries, 0),
                             .seqlen_kv = at(keys, 1),
                             .num_heads = 3,
                             .head_dim = at(widths, 2),
                             .head_dim_v = at(widths, 3),
                             .dtype = at(dtypes, 4),
                             .arrangement = at(arrangements, 5),
                             .bias = at(biases, 8),
                             .causal = at(causals, 7),
                             .kv_heads = at(kv_heads, 6),
                             .probs = at(probs, 9)};
      if (row[11] == 1) config.dropout = 0.1, config.softcap = 5.0, config.alibi = true;
      SCOPED_TRACE(target + " " + config.text());
      AttentionProblem problem(config, random.bits());
      LastWorker last(at(workers, 10));
      run(problem, &last);
    }
  }
}

template <class T>
void multiply(index_t m, index_t n, index_t k, Executor* threads) {
  const GuardedMemory guarded;
  const Tensor<T, 2> a({m, k}), b({n, k});
  const Tensor<T, 1> bias({n});
  Tensor<T, 2> c({m, n});
  matmul(a.view(), b.view(), c.view(), {.bias = bias.view(), .threads = threads});
  const PackedMatrix<T> packed(b.view(), threads);
  matmul(a.view(), b.view(), c.view(),
         {.bias = bias.view(), .accumulate = true, .packed = &packed, .threads = threads});
}

TEST_F(GuardedWorkspaces, OfProducts) {
  LastWorker last(3);
  for (const auto& target : instruction_sets()) {
    set_instruction_set(target);
    for (const index_t m : {1, 7, 49, 200}) {
      for (const index_t n : {1, 25, 47, 97, 700}) {
        for (const index_t k : {1, 63, 1537, 3100}) {
          SCOPED_TRACE(target + " " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k));
          multiply<float>(m, n, k, &last);
          if (k < 100) multiply<double>(m, n, k, &last);
        }
      }
    }
  }
}

TEST_F(GuardedWorkspaces, OfTheFeedForwardLayer) {
  LastWorker last(3);
  for (const index_t tokens : {1, 31, 300}) {
    for (const index_t hidden : {1, 33, 128}) {
      nn::FeedForward<float> layer(17, hidden, nn::Activation::gelu);
      const GuardedMemory guarded;
      const Tensor<float, 2> x({tokens, 17});
      Tensor<float, 2> y({tokens, 17});
      layer.forward(x, y, &last);
    }
  }
}

}  // namespace
}  // namespace multihead::test
