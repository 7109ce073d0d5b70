// The machine's peak: the FMA rate of a loop that touches registers alone, on the best target of this CPU.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/peak.cpp"
#include <chrono>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 12 independent sums cover latency 4 at two FMA a cycle, and fit into 16 registers.
HWY_NOINLINE double FmaRate() {
  const hn::ScalableTag<float> d;
  constexpr int kSums = 12, kRounds = 1'000'000;
  hn::Vec<decltype(d)> sum[kSums];
#pragma GCC unroll 12
  for (int s = 0; s < kSums; ++s) sum[s] = hn::Set(d, 1.0f + static_cast<float>(s));
  const auto a = hn::Set(d, 0.999f), b = hn::Set(d, 0.001f);
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int s = 0; s < kSums; ++s) sum[s] = hn::MulAdd(sum[s], a, b);
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  volatile float keep = 0;
  for (const auto& s : sum) keep = keep + hn::GetLane(s);
  return 2.0 * kSums * kRounds * static_cast<double>(hn::Lanes(d)) / time.count() / 1e9;
}

}  // namespace multihead::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace multihead::bench {

HWY_EXPORT(FmaRate);

/// GFLOP/s of one thread.
extern "C" double multihead_bench_peak() { return HWY_DYNAMIC_DISPATCH(FmaRate)(); }

}  // namespace multihead::bench
#endif
