// Intervals of ratios by the bootstrap (Efron 1979): segments are drawn again with replacement, the ratio is made anew.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "multihead/export.hpp"
#include "multihead/types.hpp"

namespace multihead::lens {

struct Interval {
  double low = 0, high = 0;
};

/// Sums of one statistic by segment. From kMost segments on, every kMost-th share a block, so memory stays.
class BlockSums {
 public:
  static constexpr std::size_t kMost = 64;
  struct Block {
    double mass = 0, chance = 0, count = 0;
  };

  void add(index_t segment, const Block& sums) {
    const std::size_t at = static_cast<std::size_t>(segment) % kMost;
    if (blocks_.size() <= at) blocks_.resize(at + 1);
    Block& block = blocks_[at];
    block.mass += sums.mass;
    block.chance += sums.chance;
    block.count += sums.count;
  }
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  std::vector<Block> blocks_;
};

/// How often each block is drawn in each of num_resamples draws: the same for all statistics of the same segments.
class MULTIHEAD_API Resamples {
 public:
  /// @param num_segments  of the pass; at most BlockSums::kMost blocks are drawn from
  Resamples(index_t num_segments, std::uint64_t seed, index_t num_resamples = 1000);

  /// The middle 95 % of (mass - chance) / (count - chance); none with fewer than two blocks that count.
  std::optional<Interval> lift_interval(const BlockSums& sums) const;

 private:
  std::size_t num_blocks_;
  std::vector<std::uint8_t> times_;  // [num_resamples, num_blocks]
};

}  // namespace multihead::lens
