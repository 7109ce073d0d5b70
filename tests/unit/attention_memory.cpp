// Memory: no read past a view by a single byte, and nothing of size Sq x Skv.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/attention_problem.hpp"

namespace multihead::test {
namespace {

/// A copy of a tensor's elements, contiguous, that ends (or begins) at a page nobody may touch.
class Fenced {
 public:
  Fenced(const AnyTensor<4>& tensor, bool at_end) : shape_(tensor.shape()), dtype_(tensor.dtype()) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const auto used = static_cast<std::size_t>(tensor.size() * dtype_bytes(dtype_));
    size_ = (used + page - 1) / page * page + 2 * page;
    memory_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(memory_, page, PROT_NONE);
    mprotect(memory_ + size_ - page, page, PROT_NONE);
    data_ = at_end ? memory_ + size_ - page - used : memory_ + page;
    const auto values = tensor.values();
    for (std::size_t n = 0; n < values.size(); ++n) {
      reference::write_element(data_, dtype_, static_cast<index_t>(n), values[n]);
    }
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  ~Fenced() { munmap(memory_, size_); }

  OutputView<4> view() const { return {data_, dtype_, shape_}; }
  std::vector<double> values() const { return reference::read<double, 4>(view()).values; }

 private:
  std::array<index_t, 4> shape_;
  DType dtype_;
  std::size_t size_ = 0;
  char *memory_ = nullptr, *data_ = nullptr;
};

// A read or write beside any of the tensors ends the program.
TEST(AttentionMemory, NothingBesideAViewIsRead) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    for (const auto& [queries, keys] : {std::pair<index_t, index_t>{1, 1}, {1, 1030}, {3, 67}, {25, 129}, {49, 50}}) {
      for (const auto& [head_dim, head_dim_v] : {std::pair<index_t, index_t>{1, 1}, {3, 5}, {7, 9}, {33, 17}}) {
        for (const bool at_end : {true, false}) {
          const AttentionProblem problem({.batch = 1,
                                          .seqlen_q = queries,
                                          .seqlen_kv = keys,
                                          .num_heads = 2,
                                          .head_dim = head_dim,
                                          .head_dim_v = head_dim_v,
                                          .dtype = dtype,
                                          .bias = Bias::full,
                                          .visible = Visible::full,
                                          .kv_heads = KvHeads::one,
                                          .probs = Probs::all},
                                         run_seed());
          const ForwardResult expected = problem.forward(core_engine());
          const BackwardResult gradients = problem.backward(core_engine(), expected);
          const Fenced q(problem.q, at_end), k(problem.k, at_end), v(problem.v, at_end), bias(problem.bias, at_end),
              visible(problem.visible, at_end), dout(problem.dout, at_end);
          const Fenced out(expected.out, at_end), probs(expected.probs, at_end), dq(gradients.dq, at_end),
              dk(gradients.dk, at_end), dv(gradients.dv, at_end), dbias(gradients.dbias, at_end);
          AttentionOptions options = problem.options();
          options.bias = bias.view();
          options.mask.visible = visible.view();
          attention_forward({q.view(), k.view(), v.view()}, {.out = out.view(), .probs = probs.view()}, options);
          EXPECT_EQ(out.values(), expected.out.values());
          EXPECT_EQ(probs.values(), expected.probs.values());
          const BroadcastOutput dbias_view = dbias.view();
          attention_backward({q.view(), k.view(), v.view(), expected.out.in(), expected.row_max.in(),
                              expected.row_sum.in(), dout.view()},
                             {.dq = dq.view(), .dk = dk.view(), .dv = dv.view(), .dbias = dbias_view}, options);
          EXPECT_EQ(dq.values(), gradients.dq.values());
          EXPECT_EQ(dv.values(), gradients.dv.values());
        }
      }
    }
  }
}

/// Bytes that a call adds to the highest resident size of the process, measured in a child of its own.
template <class Call>
index_t peak_growth(Call call) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    const auto peak = [] {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      return static_cast<index_t>(usage.ru_maxrss) * 1024;
    };
    const index_t before = peak();
    call();
    const index_t growth = peak() - before;
    const bool sent = write(ends[1], &growth, sizeof growth) == sizeof growth;
    _exit(sent ? 0 : 1);
  }
  index_t growth = -1;
  const bool received = read(ends[0], &growth, sizeof growth) == sizeof growth;
  close(ends[0]);
  close(ends[1]);
  waitpid(child, nullptr, 0);
  return received ? growth : -1;
}

/// A long problem of small heads with every option that others materialise.
AttentionProblem long_problem(index_t length) {
  return AttentionProblem({.batch = 1,
                           .seqlen_q = length,
                           .seqlen_kv = length,
                           .num_heads = 1,
                           .head_dim = 4,
                           .head_dim_v = 4,
                           .bias = Bias::per_query,
                           .causal = Causal::bottom_right,
                           .window_left = 2000,
                           .dropout = 0.1},
                          run_seed());
}

/// MULTIHEAD_TEST_LONG=1 asks for the full size; a fraction of it shows the same in less time.
index_t long_length() { return std::getenv("MULTIHEAD_TEST_LONG") != nullptr ? 32768 : 8192; }

constexpr index_t kMegabyte = 1 << 20;

TEST(AttentionMemory, ForwardIsFlatInTheLength) {
  const AttentionProblem problem = long_problem(long_length());
  AnyTensor<4> out(DType::f32, problem.q.shape());
  const index_t growth =
      peak_growth([&] { attention_forward(problem.input(), {.out = out.out()}, problem.options()); });
  std::printf("forward, S = %lld: %lld KiB\n", static_cast<long long>(long_length()),
              static_cast<long long>(growth / 1024));
  ASSERT_GE(growth, 0);
  // A mask of bools alone would be length * length bytes: 64 MiB at the smaller size.
  EXPECT_LT(growth, 4 * kMegabyte);
}

TEST(AttentionMemory, BackwardIsFlatInTheLength) {
  const AttentionProblem problem = long_problem(long_length());
  const index_t growth = peak_growth([&] {
    const ForwardResult saved = problem.forward(core_engine());
    problem.backward(core_engine(), saved);
  });
  std::printf("backward, S = %lld: %lld KiB\n", static_cast<long long>(long_length()),
              static_cast<long long>(growth / 1024));
  ASSERT_GE(growth, 0);
  // Results and their copies are length * 4 floats each: half a megabyte at the larger size.
  EXPECT_LT(growth, 12 * kMegabyte);
}

// TransformerLens#479: what counts is the length in use, not the longest that would fit.
TEST(AttentionMemory, AShortQueryOnALongCache) {
  constexpr index_t kCache = 131072;
  AttentionProblem problem({.batch = 1,
                            .seqlen_q = 8,
                            .seqlen_kv = kCache,
                            .num_heads = 1,
                            .head_dim = 4,
                            .head_dim_v = 4,
                            .causal = Causal::bottom_right,
                            .window_left = 4096},
                           run_seed());
  AnyTensor<4> out(DType::f32, problem.q.shape());
  const index_t growth =
      peak_growth([&] { attention_forward(problem.input(), {.out = out.out()}, problem.options()); });
  ASSERT_GE(growth, 0);
  EXPECT_LT(growth, 4 * kMegabyte);
}

}  // namespace
}  // namespace multihead::test
