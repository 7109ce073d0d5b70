#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "core/philox.hpp"
#include "core/require.hpp"
#include "core/splitmix64.hpp"
#include "multihead/train/parallel_text.hpp"

namespace multihead::train {
namespace {

constexpr std::uint64_t kRule = 1;                 // of batching; to be raised with every change of it
constexpr std::uint64_t kOrderKey = 0x6f72646572;  // apart from the numbers that dropout draws from the same seed

enum class Shuffled : std::uint32_t { pairs, batches };

/// Fisher & Yates 1938 as Durstenfeld 1964 has it. The remainder of 64 random bits is uniform to size / 2^64.
template <class Value>
void shuffle(std::vector<Value>& values, std::uint64_t key, index_t epoch, Shuffled what) {
  const auto number = static_cast<std::uint64_t>(epoch);
  for (std::size_t left = values.size(); left > 1; --left) {
    const auto counter = static_cast<std::uint64_t>(left);
    const PhiloxBlock block =
        philox(key, {{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(what),
                      static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)}});
    const std::uint64_t bits = std::uint64_t{block.word[1]} << 32 | block.word[0];
    std::swap(values[left - 1], values[static_cast<std::size_t>(bits % counter)]);
  }
}

}  // namespace

Batches::Batches(const ParallelText& text, const BatchOptions& options) : text_(text), options_(options) {
  require(options.target_pieces >= 1, "Batches", "target_pieces must be at least 1",
          {{"target_pieces", options.target_pieces}});
  by_length_.resize(static_cast<std::size_t>(text.size()));
  std::iota(by_length_.begin(), by_length_.end(), index_t{0});
  std::ranges::sort(by_length_, {},
                    [&](index_t n) { return std::tuple(text.target(n).size(), text.source(n).size(), n); });
  index_t in_batch = 0, num_source = 0, num_target = 0;
  for (std::size_t at = 0; at < by_length_.size(); ++at) {
    const auto more_source = static_cast<index_t>(text.source(by_length_[at]).size()) + 1;
    const auto more_target = static_cast<index_t>(text.target(by_length_[at]).size()) + 1;
    const bool is_full =
        num_target + more_target > options.target_pieces || (num_source + more_source + 1) / 2 > options.target_pieces;
    if (in_batch > 0 && is_full) {
      ends_.push_back(static_cast<index_t>(at));
      in_batch = num_source = num_target = 0;
    }
    ++in_batch, num_source += more_source, num_target += more_target;
  }
  ends_.push_back(text.size());
}

std::vector<std::vector<index_t>> Batches::cut(const std::vector<index_t>& order) const {
  std::vector<std::vector<index_t>> batches;
  index_t begin = 0;
  for (const index_t end : ends_) {
    batches.emplace_back(order.begin() + begin, order.begin() + end);
    begin = end;
  }
  return batches;
}

std::vector<std::vector<index_t>> Batches::epoch(index_t epoch) const {
  const std::uint64_t key = splitmix64(options_.seed ^ kOrderKey);
  std::vector<index_t> order(by_length_.size());
  std::iota(order.begin(), order.end(), index_t{0});
  shuffle(order, key, epoch, Shuffled::pairs);
  std::ranges::stable_sort(order, {},
                           [&](index_t n) { return std::pair(text_.target(n).size(), text_.source(n).size()); });
  auto batches = cut(order);
  shuffle(batches, key, epoch, Shuffled::batches);
  return batches;
}

std::vector<std::vector<index_t>> Batches::in_order() const { return cut(by_length_); }

std::uint64_t Batches::hash() const {
  return splitmix64(splitmix64(text_.hash() ^ static_cast<std::uint64_t>(options_.target_pieces)) ^ kRule);
}

}  // namespace multihead::train
