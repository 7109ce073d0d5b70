// Google Benchmark over bench/shapes: multihead_gbench [--benchmark_filter=core/base-512/1]
//
// Names are work/shape/threads. GFLOP/s counts the products of the pairs that masks by rule leave, 2 of them forward
// and 5 backward; GB/s counts one reading of the cache.
#include <benchmark/benchmark.h>

#include "bench/problem.hpp"

namespace multihead::bench {
namespace {

void rate(benchmark::State& state, const char* name, double amount) {
  state.counters[name] = benchmark::Counter(amount / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

void time_forward(benchmark::State& state, const Shape& shape, int num_threads) {
  Threads threads(num_threads);
  Problem problem(shape, false, &threads);
  for (auto _ : state) problem.forward();
  rate(state, "GFLOP/s", 2 * problem.flops_of_product());
}

void time_decode(benchmark::State& state, const Shape& shape, int num_threads) {
  Threads threads(num_threads);
  Problem problem(shape, true, &threads);
  for (auto _ : state) problem.forward();
  rate(state, "GB/s", problem.bytes_of_cache());
}

void time_backward(benchmark::State& state, const Shape& shape, int num_threads) {
  Threads threads(num_threads);
  Problem problem(shape, false, &threads);
  problem.forward();
  for (auto _ : state) problem.backward();
  rate(state, "GFLOP/s", 5 * problem.flops_of_product());
}

void register_all(const std::string& work, void (*time)(benchmark::State&, const Shape&, int)) {
  for (const Shape& shape : read_shapes(MULTIHEAD_BENCH_SHAPES "/" + work + ".txt")) {
    if (shape.has("bf16") || shape.has("f16")) continue;
    for (const int threads : {1, 2}) {
      benchmark::RegisterBenchmark((work + "/" + shape.name + "/" + std::to_string(threads)).c_str(), time, shape,
                                   threads)
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace multihead::bench

int main(int argc, char** argv) {
  using namespace multihead::bench;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  register_all("core", time_forward);
  register_all("masks", time_forward);
  register_all("backward", time_backward);
  register_all("decode", time_decode);
  benchmark::RunSpecifiedBenchmarks();
}
