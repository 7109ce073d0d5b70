// Google Benchmark over bench/shapes: multihead_gbench [--benchmark_filter=core/base-512/1]
//
// Names are work/shape/threads. GFLOP/s counts the products of the pairs that masks by rule leave, 2 of them forward
// and 5 backward; GB/s counts one reading of the cache.
#include <benchmark/benchmark.h>

#include "bench/problem.hpp"
#include "multihead/nn/multi_head_attention.hpp"

namespace multihead::bench {
namespace {

void rate(benchmark::State& state, const char* name, double amount) {
  state.counters[name] = benchmark::Counter(amount / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

void time_forward(benchmark::State& state, const std::vector<std::string>& words, int num_threads) {
  Threads threads(num_threads);
  Problem problem(Shape(words), false, &threads);
  for (auto _ : state) problem.forward();
  rate(state, "GFLOP/s", 2 * problem.flops_of_product());
}

void time_decode(benchmark::State& state, const std::vector<std::string>& words, int num_threads) {
  Threads threads(num_threads);
  Problem problem(Shape(words), true, &threads);
  for (auto _ : state) problem.forward();
  rate(state, "GB/s", problem.bytes_of_cache());
}

void time_backward(benchmark::State& state, const std::vector<std::string>& words, int num_threads) {
  Threads threads(num_threads);
  Problem problem(Shape(words), false, &threads);
  problem.forward();
  for (auto _ : state) problem.backward();
  rate(state, "GFLOP/s", 5 * problem.flops_of_product());
}

// B S H D
void time_layer(benchmark::State& state, const std::vector<std::string>& words, int num_threads) {
  const index_t batch = std::stoll(words.at(0)), seqlen = std::stoll(words.at(1)), heads = std::stoll(words.at(2));
  const index_t d_model = heads * std::stoll(words.at(3));
  Threads threads(num_threads);
  nn::MultiHeadAttention<float> layer({.d_model = d_model, .num_heads = heads});
  layer.initialize(1);
  Tensor<float, 3> x({batch, seqlen, d_model}), y({batch, seqlen, d_model});
  for (index_t n = 0; n < x.size(); ++n) x.data()[n] = static_cast<float>(n * n % 97) / 97 - 0.5f;
  nn::MultiHeadOptions<float> options;
  options.attention.threads = &threads;
  for (auto _ : state) layer.forward({.x_q = x.view()}, {.y = y.view()}, options);
  const auto tokens = static_cast<double>(batch * seqlen), width = static_cast<double>(d_model);
  rate(state, "GFLOP/s", 8 * tokens * width * width + 4 * tokens * static_cast<double>(seqlen) * width);
}

void register_all(const std::string& work, void (*time)(benchmark::State&, const std::vector<std::string>&, int)) {
  for (const Line& line : read_lines(MULTIHEAD_BENCH_SHAPES "/" + work + ".txt")) {
    if (line.words.back() == "bf16" || line.words.back() == "f16") continue;
    for (const int threads : {1, 2}) {
      benchmark::RegisterBenchmark((work + "/" + line.name + "/" + std::to_string(threads)).c_str(), time, line.words,
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
  register_all("layer", time_layer);
  benchmark::RunSpecifiedBenchmarks();
}
