#include "multihead/lens/bootstrap.hpp"

#include <algorithm>

#include "core/splitmix64.hpp"

namespace multihead::lens {

Resamples::Resamples(index_t num_segments, std::uint64_t seed, index_t num_resamples)
    : num_blocks_(std::min(static_cast<std::size_t>(std::max<index_t>(num_segments, 0)), BlockSums::kMost)),
      times_(static_cast<std::size_t>(num_resamples) * num_blocks_) {
  std::uint64_t state = seed;
  for (std::size_t begin = 0; begin < times_.size(); begin += num_blocks_) {
    for (std::size_t draw = 0; draw < num_blocks_; ++draw, state += kSplitMix64Step) {
      ++times_[begin + splitmix64(state) % num_blocks_];
    }
  }
}

std::optional<Interval> Resamples::lift_interval(const BlockSums& sums) const {
  const std::vector<BlockSums::Block>& blocks = sums.blocks();
  const auto counts = [](const BlockSums::Block& block) { return block.count > 0; };
  if (std::ranges::count_if(blocks, counts) < 2 || blocks.size() > num_blocks_) return std::nullopt;
  std::vector<double> lifts;
  lifts.reserve(times_.size() / num_blocks_);
  for (std::size_t begin = 0; begin < times_.size(); begin += num_blocks_) {
    BlockSums::Block sum;
    for (std::size_t n = 0; n < blocks.size(); ++n) {
      const double times = times_[begin + n];
      sum.mass += times * blocks[n].mass, sum.chance += times * blocks[n].chance, sum.count += times * blocks[n].count;
    }
    if (sum.count > sum.chance) lifts.push_back((sum.mass - sum.chance) / (sum.count - sum.chance));
  }
  if (lifts.empty()) return std::nullopt;
  std::ranges::sort(lifts);
  const auto at = [&](double share) {
    return lifts[static_cast<std::size_t>(share * static_cast<double>(lifts.size() - 1) + 0.5)];
  };
  return Interval{.low = at(0.025), .high = at(0.975)};
}

}  // namespace multihead::lens
