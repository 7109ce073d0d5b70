// What the machine can do, measured in the process that measures us: its threads, and the bandwidth of reading memory.
// The FMA rate stands in peak.cpp.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/machine_api.cpp"
#include <algorithm>
#include <atomic>
#include <string>

#include "bench/threads_api.hpp"
#include "core/ceil_div.hpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "multihead/instruction_set.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 8 sums: two loads a cycle never wait for an addition.
HWY_NOINLINE float Sum(const float* HWY_RESTRICT values, index_t count) {
  const hn::ScalableTag<float> d;
  constexpr int kSums = 8;
  const auto lanes = static_cast<index_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[kSums];
#pragma GCC unroll 8
  for (int s = 0; s < kSums; ++s) sum[s] = hn::Zero(d);
  for (index_t i = 0; i + kSums * lanes <= count; i += kSums * lanes) {
#pragma GCC unroll 8
    for (int s = 0; s < kSums; ++s) sum[s] = hn::Add(sum[s], hn::LoadU(d, values + i + s * lanes));
  }
  for (int s = 1; s < kSums; ++s) sum[0] = hn::Add(sum[0], sum[s]);
  return hn::GetLane(sum[0]);
}

}  // namespace multihead::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace multihead::bench {

HWY_EXPORT(Sum);

/// Reads count floats once, in pieces of 64 KB that the threads share.
extern "C" void multihead_bench_read(const float* values, index_t count, void* threads) {
  constexpr index_t kPiece = 16384;
  std::atomic<float> kept{0};
  run_tasks(static_cast<Threads*>(threads), ceil_div(count, kPiece), [&](index_t piece, int) {
    const index_t begin = piece * kPiece;
    kept.store(HWY_DYNAMIC_DISPATCH(Sum)(values + begin, std::min(kPiece, count - begin)), std::memory_order_relaxed);
  });
}

}  // namespace multihead::bench

/// The instruction set that the kernels run on: "AVX2", "AVX3", ..
extern "C" const char* multihead_bench_target() {
  static const std::string name = multihead::instruction_set();
  return name.c_str();
}
void* multihead_bench_threads(int num_threads) { return new multihead::Threads(num_threads); }
#endif
