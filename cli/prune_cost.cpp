// What a model costs: its size, the memory of a forward, tokens a second beside another.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <numeric>

#include "multihead/memory.hpp"
#include "prune.hpp"

namespace multihead::cli {
namespace {

constexpr index_t kBatches[] = {1, 4, 16, 64};

index_t num_parameters(const Encoder& encoder) {
  const EncoderEmbeddings& e = encoder.embeddings();
  index_t count = e.word.weight.size() + e.position.weight.size() + e.token_type.weight.size() + e.norm.weight.size() +
                  e.norm.bias.size();
  for (const EncoderLayer& layer : encoder.layers()) {
    layer.attention.parameters().for_each([&](const char*, const auto& tensor) { count += tensor.size(); });
    for (const auto* linear : {&layer.feed_forward.up, &layer.feed_forward.down}) {
      count += linear->weight.size() + linear->bias.size();
    }
    for (const auto* norm : {&layer.attention_norm, &layer.feed_forward_norm}) {
      count += norm->weight.size() + norm->bias.size();
    }
  }
  return count;
}

/// Two for each weight of a matrix, and the products of scores and values with `length` keys.
double flops_per_token(const Encoder& encoder, double length) {
  double flops = 0;
  for (const EncoderLayer& layer : encoder.layers()) {
    const auto& p = layer.attention.parameters();
    const auto weights = p.w_q.size() + p.w_k.size() + p.w_v.size() + p.w_o.size() +
                         layer.feed_forward.up.weight.size() + layer.feed_forward.down.weight.size();
    const auto features = layer.attention.num_heads() * encoder.config().head_dim;
    flops += 2 * static_cast<double>(weights) + 4 * length * static_cast<double>(features);
  }
  return flops;
}

/// "VmHWM:     123 kB" of /proc/self/status, in bytes.
std::optional<index_t> status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":", 0) == 0) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return {};
}

/// Of a second forward: the first may leave memory to the allocator.
std::optional<index_t> forward_memory(const Encoder& encoder, const TokenBatch& batch, Executor* threads) {
  static_cast<void>(encoder.forward(batch.input(), {.threads = threads}));
  release_kept_memory();
  ::malloc_trim(0);
  std::ofstream reset("/proc/self/clear_refs");
  reset << 5 << std::flush;  // the peak starts anew
  if (!reset) return {};
  const std::optional<index_t> begin = status_bytes("VmRSS");
  static_cast<void>(encoder.forward(batch.input(), {.threads = threads}));
  const std::optional<index_t> most = status_bytes("VmHWM");
  if (!begin || !most) return {};
  return std::max<index_t>(*most - *begin, 0);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

TokenBatch first_sentences(const std::vector<std::vector<index_t>>& sentences, index_t count, index_t pad) {
  std::vector<std::vector<index_t>> some;
  for (index_t n = 0; n < count; ++n) some.push_back(sentences[static_cast<std::size_t>(n) % sentences.size()]);
  return pad_batch(some, pad);
}

}  // namespace

ModelSize size_of(const Encoder& encoder, const std::vector<std::vector<index_t>>& sentences, Executor* threads) {
  double tokens = 0;
  for (const std::vector<index_t>& each : sentences) tokens += static_cast<double>(each.size());
  const TokenBatch batch = first_sentences(sentences, 64, encoder.config().pad_token_id);
  return {.parameters = num_parameters(encoder),
          .flops_per_token = flops_per_token(encoder, tokens / static_cast<double>(sentences.size())),
          .memory_bytes = forward_memory(encoder, batch, threads)};
}

std::vector<PruneSpeed> compare_speed(const Encoder& before, const Encoder& after,
                                      const std::vector<std::vector<index_t>>& sentences, Executor* threads) {
  using Clock = std::chrono::steady_clock;
  constexpr double kSeconds = 1.5;
  constexpr std::size_t kFewest = 7, kMost = 200;
  std::vector<PruneSpeed> speed;
  for (const index_t size : kBatches) {
    const TokenBatch batch = first_sentences(sentences, size, before.config().pad_token_id);
    const auto tokens = static_cast<double>(
        std::accumulate(batch.lengths.data(), batch.lengths.data() + batch.lengths.size(), index_t{0}));
    const auto run = [&](const Encoder& encoder) {
      const auto begin = Clock::now();
      static_cast<void>(encoder.forward(batch.input(), {.threads = threads}));
      return tokens / std::chrono::duration<double>(Clock::now() - begin).count();
    };
    run(before), run(after);
    std::vector<double> first, second, ratio;
    const auto begin = Clock::now();
    while (ratio.size() < kFewest ||
           (ratio.size() < kMost && std::chrono::duration<double>(Clock::now() - begin).count() < kSeconds)) {
      const bool swapped = ratio.size() % 2 == 1;
      const double one = run(swapped ? after : before), other = run(swapped ? before : after);
      first.push_back(swapped ? other : one);
      second.push_back(swapped ? one : other);
      ratio.push_back(second.back() / first.back());
    }
    const auto [low, high] = std::ranges::minmax(ratio);
    speed.push_back({size, median(first), median(second), median(ratio), low, high});
  }
  return speed;
}

}  // namespace multihead::cli
