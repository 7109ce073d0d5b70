// Results are the same bits for any executor, however it spreads its tasks, and for the floating-point modes of the
// caller whichever thread a task runs in.
#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <memory>
#include <thread>
#include <vector>

#include "core/floating_modes.hpp"
#include "multihead/matmul.hpp"
#include "multihead/nn/feed_forward.hpp"
#include "multihead/packed_matrix.hpp"
#include "multihead/threads.hpp"
#include "tests/support/attention_problem.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/layer_problem.hpp"

namespace multihead::test {
namespace {

using Bytes = std::vector<unsigned char>;

template <class T, int R>
void append(Bytes& bytes, const Tensor<T, R>& x) {
  const auto* first = reinterpret_cast<const unsigned char*>(x.data());
  bytes.insert(bytes.end(), first, first + x.size() * sizeof(T));
}

// Attention, a matrix product and layers, forward and backward; numbers of about `size`.
class Work {
 public:
  explicit Work(double size) {
    Random random(run_seed());
    AttentionConfig config{.batch = 2, .seqlen_q = 45, .seqlen_kv = 150, .num_heads = 4, .head_dim = 16};
    config.dlse = true;
    add_problem(config, size);
    config.seqlen_q = 1;  // decode
    config.dtype = DType::bf16;
    add_problem(config, size);
    const auto made = [&](auto& x, std::array<index_t, 2> shape, double factor) {
      x = random_tensor<float, 2>(random, shape);
      for (index_t n = 0; n < x.size(); ++n) x.data()[n] *= static_cast<float>(factor);
    };
    made(x_, {130, 96}, size);
    made(dy_, {130, 96}, size);
    network_ = nn::FeedForward<float>(96, 160, nn::Activation::gelu);
    made(network_.up.weight, {160, 96}, 1);
    made(network_.down.weight, {96, 160}, 1);
  }

  Bytes results(Executor* threads) const {
    Bytes bytes;
    for (AttentionProblem problem : problems_) {
      problem.threads = threads;
      const ForwardResult forward = problem.forward(core_engine());
      const BackwardResult backward = problem.backward(core_engine(), forward);
      for (const auto* x : {&forward.out, &backward.dq, &backward.dk, &backward.dv}) {
        bytes.insert(bytes.end(), x->bytes().begin(), x->bytes().end());
      }
    }
    Tensor<float, 2> y({130, 96}), dx({130, 96}), product({130, 160});
    nn::FeedForwardActivations<float> activations;
    nn::FeedForward<float> gradients(96, 160, nn::Activation::gelu);
    network_.forward(x_, y, threads, &activations);
    network_.backward(x_, activations, dy_, dx, &gradients, threads);
    const PackedMatrix<float> packed(network_.up.weight.view(), threads);
    matmul(x_, network_.up.weight, product, {.packed = &packed, .threads = threads});
    append(bytes, y), append(bytes, dx), append(bytes, product);
    append(bytes, gradients.up.weight), append(bytes, gradients.down.bias);
    return bytes;
  }

 private:
  void add_problem(const AttentionConfig& config, double size) {
    AttentionProblem problem(config, run_seed());
    Random random(run_seed());
    problem.v.generate([&](auto) { return size * random.uniform(); });
    problem.dout.generate([&](auto) { return size * random.uniform(); });
    problems_.push_back(problem);
  }

  std::vector<AttentionProblem> problems_;
  Tensor<float, 2> x_, dy_;
  nn::FeedForward<float> network_;
};

/// Says `num_threads` and runs all tasks in the calling thread under one worker, the last task first.
class OneSlot final : public Executor {
 public:
  OneSlot(int num_threads, int slot) : num_threads_(num_threads), slot_(slot) {}
  int num_threads() const override { return num_threads_; }
  void run(index_t num_tasks, const std::function<void(index_t, int)>& task) override {
    for (index_t index = num_tasks; index-- > 0;) task(index, slot_);
  }

 private:
  const int num_threads_, slot_;
};

/// Says `num_threads` and uses fewer, which start in the default modes, whatever those of the caller are. May be called
/// by several threads at once.
class Fewer final : public Executor {
 public:
  Fewer(int num_threads, int used) : num_threads_(num_threads), used_(used) {}
  int num_threads() const override { return num_threads_; }
  bool restored() const { return restored_; }
  void run(index_t num_tasks, const std::function<void(index_t, int)>& task) override {
    std::atomic<index_t> next{0};
    std::vector<std::thread> threads;
    for (int worker = 0; worker < used_; ++worker) {
      threads.emplace_back([&, worker] {
        std::fesetenv(FE_DFL_ENV);
        const FloatingModes before = FloatingModes::of_this_thread();
        for (index_t index = next++; index < num_tasks; index = next++) task(index, worker);
        if (FloatingModes::of_this_thread() != before) restored_ = false;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  const int num_threads_, used_;
  std::atomic<bool> restored_{true};
};

TEST(Executors, AnyWayToSpreadTasks) {
  const Work work(1);
  const Bytes expected = work.results(nullptr);
  OneSlot first(4, 0), last(4, 3), alone(1, 0), many(100, 99);
  Fewer two(8, 2), one(3, 1);
  for (Executor* executor : std::vector<Executor*>{&first, &last, &alone, &many, &two, &one}) {
    EXPECT_TRUE(work.results(executor) == expected) << executor->num_threads();
  }
}

void expect_from_several_threads(Executor& executor, const Work& work, const Bytes& expected) {
  std::vector<int> same(3);
  std::vector<std::thread> callers;
  for (int& result : same) callers.emplace_back([&] { result = work.results(&executor) == expected; });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(same, std::vector<int>(3, 1));
}

TEST(Executors, CalledFromSeveralThreadsAtOnce) {
  const Work work(1);
  const Bytes expected = work.results(nullptr);
  Threads threads(3);
  Fewer fewer(4, 2);
  expect_from_several_threads(threads, work, expected);
  expect_from_several_threads(fewer, work, expected);
}

TEST(Executors, FromWithinATask) {
  EXPECT_EQ(end_of_child([] {
              const Work work(1);
              const Bytes expected = work.results(nullptr);
              Fewer fewer(4, 2);
              for (int num_threads : {1, 2, 4}) {
                Threads threads(num_threads);
                const auto check = [&](Executor& inner) {
                  return [&](index_t, int) {
                    if (work.results(&inner) != expected) _exit(1);
                  };
                };
                threads.run(4, check(threads));
                threads.run(3, check(fewer));
                fewer.run(3, check(threads));
              }
            }),
            "exit 0");
}

/// Flush-to-zero and denormals-are-zero in this thread. False where it is not known how.
bool flush_to_zero() {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
  return true;
#elif defined(__aarch64__)
  std::uint64_t modes = 0;
  asm volatile("mrs %0, fpcr" : "=r"(modes));
  asm volatile("msr fpcr, %0" : : "r"(modes | std::uint64_t{1} << 24));
  return true;
#else
  return false;
#endif
}

/// Sets modes in this thread by `set`: all executors, made before, give the bits of the calling thread alone, and those
/// differ from what the default modes give.
template <class Set>
void expect_modes_of_the_caller(double size, Set&& set) {
  const Work work(size);
  const Bytes usual = work.results(nullptr);
  Fewer fewer(4, 2);
  std::vector<std::unique_ptr<Threads>> pools;
  for (int num_threads : {1, 2, 4}) pools.push_back(std::make_unique<Threads>(num_threads));
  for (auto& pool : pools) EXPECT_TRUE(work.results(pool.get()) == usual);

  {
    const FloatingModesScope restore(FloatingModes::of_this_thread());
    set();
    const FloatingModes modes = FloatingModes::of_this_thread();
    const Bytes expected = work.results(nullptr);
    EXPECT_FALSE(expected == usual);
    EXPECT_TRUE(work.results(&fewer) == expected);
    EXPECT_TRUE(fewer.restored());
    for (auto& pool : pools) {
      for (int repeat = 0; repeat < 3; ++repeat) EXPECT_TRUE(work.results(pool.get()) == expected);
      std::atomic<int> others{0};
      pool->run(100, [&](index_t, int) {
        others += FloatingModes::of_this_thread() != modes;
        std::this_thread::yield();
        Threads inner(2);
        inner.run(2, [&](index_t, int) { others += FloatingModes::of_this_thread() != modes; });
      });
      EXPECT_EQ(others, 0);
    }
    EXPECT_TRUE(FloatingModes::of_this_thread() == modes);
  }
  for (auto& pool : pools) EXPECT_TRUE(work.results(pool.get()) == usual);
}

TEST(FloatingModes, FlushToZeroOfTheCaller) {
  {
    const FloatingModesScope restore(FloatingModes::of_this_thread());
    if (!flush_to_zero()) GTEST_SKIP() << "no known flush-to-zero on this machine";
  }
  expect_modes_of_the_caller(1e-39, [] { flush_to_zero(); });
}

TEST(FloatingModes, RoundingOfTheCaller) {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    expect_modes_of_the_caller(1, [&] { std::fesetround(mode); });
  }
}

// A worker sees what std::fegetround says in the caller; flags that a task raises in the caller's own thread stay.
TEST(FloatingModes, WhatATaskSees) {
  const FloatingModesScope restore(FloatingModes::of_this_thread());
  Threads threads(3);
  Fewer fewer(4, 2);
  OneSlot here(2, 0);
  std::fesetround(FE_UPWARD);
  for (Executor* executor : std::vector<Executor*>{&threads, &fewer, &here}) {
    std::atomic<int> others{0};
    run_tasks(executor, 50, [&](index_t, int) { others += std::fegetround() != FE_UPWARD; });
    EXPECT_EQ(others, 0);
  }
  std::feclearexcept(FE_ALL_EXCEPT);
  run_tasks(&here, 2, [](index_t, int) { std::feraiseexcept(FE_DIVBYZERO); });
  EXPECT_NE(std::fetestexcept(FE_DIVBYZERO), 0);
  std::feclearexcept(FE_ALL_EXCEPT);
}

}  // namespace
}  // namespace multihead::test
