// The peak of the machine: the FMA rate of a loop that touches registers alone, on the best target of this CPU, in a
// slice of some 50 microseconds. Taken right after a call it runs at the clock that the call left: cores with AVX-512
// lower their clock under products, and a loop of milliseconds would wait until it is up again.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/peak.cpp"
#include <chrono>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace multihead::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 12 independent sums cover a latency of 4 cycles at two FMA a cycle, and fit into 16 registers. Where there are 32
// registers, 24 sums share two FMA units evenly however the CPU assigns them; 12 do not always.
HWY_NOINLINE double FmaRate() {
  const hn::ScalableTag<float> d;
  constexpr int kSums = HWY_TARGET <= HWY_AVX3 ? 24 : 12, kRounds = 300'000 / kSums;
  hn::Vec<decltype(d)> sum[kSums];
#pragma GCC unroll 24
  for (int s = 0; s < kSums; ++s) sum[s] = hn::Set(d, 1.0f + static_cast<float>(s));
  const auto a = hn::Set(d, 0.999f), b = hn::Set(d, 0.001f);
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 24
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

/// GFLOP/s of one thread, over some 50 microseconds.
extern "C" double multihead_bench_peak() { return HWY_DYNAMIC_DISPATCH(FmaRate)(); }

}  // namespace multihead::bench
#endif
