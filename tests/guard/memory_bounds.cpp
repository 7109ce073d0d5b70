// What a call takes beside its tensors is within the bounds of include/multihead/attention.hpp, on every instruction
// set.
#include <gtest/gtest.h>

#include "multihead/attention.hpp"
#include "multihead/instruction_set.hpp"
#include "tests/guard/guarded_memory.hpp"

namespace multihead::test {
namespace {

/// Runs no task: memory is taken as for the work, which would be long.
class Idle final : public Executor {
 public:
  explicit Idle(int num_threads) : num_threads_(num_threads) {}
  int num_threads() const override { return num_threads_; }
  void run(index_t, const std::function<void(index_t, int)>&) override {}

 private:
  int num_threads_;
};

struct Call {
  DType dtype;  // of q, k and v
  index_t seqlen_q, seqlen_kv, num_heads, num_kv_heads, head_dim, head_dim_v;
  int threads;
  bool probs;

  DType out_dtype() const { return dtype == DType::f64 ? DType::f64 : DType::f32; }
  std::string text() const {
    return std::string(dtype_name(dtype)) + " Sq=" + std::to_string(seqlen_q) + " Skv=" + std::to_string(seqlen_kv) +
           " H=" + std::to_string(num_heads) + " Hkv=" + std::to_string(num_kv_heads) +
           " D=" + std::to_string(head_dim) + " Dv=" + std::to_string(head_dim_v) +
           " threads=" + std::to_string(threads) + (probs ? " probs" : "") + " " + instruction_set();
  }
};

/// Calls work(call) for sizes on both sides of all that the bounds speak of.
template <class Work>
void for_calls(const Work& work) {
  for (const std::string& target : {instruction_sets().front(), instruction_sets().back()}) {
    set_instruction_set(target);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      for (const index_t seqlen_q : {1, 16, 17, 700, 20'000}) {
        for (const index_t seqlen_kv : {1, 1000, 8192, 8193, 40'000}) {
          for (const index_t num_kv_heads : {1, 2, 6}) {
            for (const auto& [head_dim, head_dim_v] : {std::pair<index_t, index_t>{1, 1}, {64, 64}, {32, 256}}) {
              for (const int threads : {1, 8}) {
                for (const bool probs : {false, true}) {
                  if (probs && seqlen_q > 17) continue;  // probs themselves would be large
                  work(Call{dtype, seqlen_q, seqlen_kv, 6, num_kv_heads, head_dim, head_dim_v, threads, probs});
                }
              }
            }
          }
        }
      }
    }
  }
  set_instruction_set(instruction_sets().front());
}

constexpr index_t kBatch = 2;  // a task that is alone would be run by the caller
constexpr double kMegabyte = 1e6;

double forward_bound(const Call& c) {
  double each = 3.5 * kMegabyte + 8e3 * static_cast<double>(c.head_dim + c.head_dim_v);
  if (c.seqlen_kv > 8192) each += 1.5 * kMegabyte;
  if (c.probs) each += 4.0 * static_cast<double>((c.head_dim + c.head_dim_v + 50) * c.seqlen_kv);
  double bytes = each * c.threads;
  if (c.seqlen_q * c.num_heads / c.num_kv_heads <= 16) {
    const index_t thousands = (c.seqlen_kv + 1023) / 1024;
    bytes += 4.0 * static_cast<double>((c.head_dim_v + 3) * kBatch * c.seqlen_q * c.num_heads * thousands);
  }
  return c.dtype == DType::f64 ? 2 * bytes : bytes;
}

double backward_bound(const Call& c) {
  double bytes = (1 * kMegabyte + 4e3 * static_cast<double>(c.head_dim + c.head_dim_v)) * c.threads;
  bytes += 4.0 * static_cast<double>(kBatch * c.num_heads * c.seqlen_q);
  const index_t rows = c.num_heads / c.num_kv_heads * (c.seqlen_q + 48);
  const double dq = (4.0 * c.threads + 3) * 4 * static_cast<double>(rows * c.head_dim);
  bytes += c.seqlen_kv > 32'768 ? 2 * dq : dq;
  return c.dtype == DType::f64 ? 2 * bytes : bytes;
}

/// Of one element that stands for all: no input of these sizes is read.
template <int R>
InputView<R> expanded(DType dtype, std::array<index_t, R> shape, bool contiguous_rows) {
  static double zeros[256];
  std::array<index_t, R> stride{};
  if (contiguous_rows) stride.back() = 1;
  return {static_cast<const void*>(zeros), dtype, shape, stride};
}

/// Of an address that no task writes to.
template <int R>
OutputView<R> unwritten(DType dtype, std::array<index_t, R> shape) {
  static double place;
  return {static_cast<void*>(&place), dtype, shape};
}

struct MemoryBounds : testing::Test {
  double worst = 0;  // share of the bound that was used

  void expect_within(double bound, const char* what, const Call& c) {
    const auto used = static_cast<double>(GuardedMemory::most_bytes());
    EXPECT_LE(used, bound) << what << " " << c.text();
    worst = std::max(worst, used / bound);
  }
  void TearDown() override {
    std::printf("largest share of a bound that was used: %.2f\n", worst);
    EXPECT_GT(worst, 0.5) << "the bounds are far above what is used, or nothing was counted";
  }
};

TEST_F(MemoryBounds, OfForward) {
  for_calls([&](const Call& c) {
    Idle idle(c.threads);
    const GuardedMemory guarded;
    attention_forward({expanded<4>(c.dtype, {kBatch, c.seqlen_q, c.num_heads, c.head_dim}, true),
                       expanded<4>(c.dtype, {kBatch, c.seqlen_kv, c.num_kv_heads, c.head_dim}, true),
                       expanded<4>(c.dtype, {kBatch, c.seqlen_kv, c.num_kv_heads, c.head_dim_v}, true)},
                      {.out = unwritten<4>(c.out_dtype(), {kBatch, c.seqlen_q, c.num_heads, c.head_dim_v}),
                       .probs = c.probs ? unwritten<4>(c.out_dtype(), {kBatch, c.num_heads, c.seqlen_q, c.seqlen_kv})
                                        : OutputView<4>()},
                      {.threads = &idle});
    expect_within(forward_bound(c), "forward", c);
  });
}

TEST_F(MemoryBounds, OfBackward) {
  for_calls([&](const Call& c) {
    if (c.probs) return;
    Idle idle(c.threads);
    const GuardedMemory guarded;
    const std::array<index_t, 4> q{kBatch, c.seqlen_q, c.num_heads, c.head_dim},
        out{kBatch, c.seqlen_q, c.num_heads, c.head_dim_v}, k{kBatch, c.seqlen_kv, c.num_kv_heads, c.head_dim},
        v{kBatch, c.seqlen_kv, c.num_kv_heads, c.head_dim_v};
    const InputView<3> rows = expanded<3>(c.out_dtype(), {kBatch, c.num_heads, c.seqlen_q}, false);
    attention_backward({.q = expanded<4>(c.dtype, q, true),
                        .k = expanded<4>(c.dtype, k, true),
                        .v = expanded<4>(c.dtype, v, true),
                        .out = expanded<4>(c.out_dtype(), out, true),
                        .row_max = rows,
                        .row_sum = rows,
                        .dout = expanded<4>(c.out_dtype(), out, true)},
                       {.dq = unwritten<4>(c.out_dtype(), q),
                        .dk = unwritten<4>(c.out_dtype(), k),
                        .dv = unwritten<4>(c.out_dtype(), v)},
                       {.threads = &idle});
    expect_within(backward_bound(c), "backward", c);
  });
}

}  // namespace
}  // namespace multihead::test
