#include "tests/support/all_pairs.hpp"

#include <algorithm>
#include <numeric>

namespace multihead::test {
namespace {

constexpr int kUnset = -1;

/// The pairs that no row has yet. Levels of all factors are numbered through: factor f has [first_[f], first_[f + 1]).
class OpenPairs {
 public:
  explicit OpenPairs(const std::vector<int>& num_levels) : first_(1, 0) {
    for (int levels : num_levels) first_.push_back(first_.back() + levels);
    open_.assign(static_cast<std::size_t>(first_.back()),
                 std::vector<bool>(static_cast<std::size_t>(first_.back()), true));
    for (std::size_t f = 0; f < num_levels.size(); ++f) {
      for (int a = first_[f]; a < first_[f + 1]; ++a) {
        for (int b = first_[f]; b < first_[f + 1]; ++b) open_[a][b] = false;
      }
    }
  }

  /// How many open pairs `level` of `factor` makes with the levels that `row` has.
  int gain(const std::vector<int>& row, std::size_t factor, int level) const {
    int count = 0;
    for (std::size_t f = 0; f < row.size(); ++f) {
      if (row[f] != kUnset) count += open_[first_[f] + row[f]][first_[factor] + level];
    }
    return count;
  }

  /// How many open pairs `level` of `factor` is in.
  int left(std::size_t factor, int level) const {
    const auto& line = open_[first_[factor] + level];
    return static_cast<int>(std::count(line.begin(), line.end(), true));
  }

  void close(const std::vector<int>& row) {
    for (std::size_t f = 0; f < row.size(); ++f) {
      for (std::size_t g = 0; g < row.size(); ++g) open_[first_[f] + row[f]][first_[g] + row[g]] = false;
    }
  }

 private:
  std::vector<int> first_;
  std::vector<std::vector<bool>> open_;
};

}  // namespace

std::vector<std::vector<int>> all_pairs(const std::vector<int>& num_levels, Random& random) {
  OpenPairs open(num_levels);
  std::vector<std::vector<int>> rows;
  while (true) {
    // Start from the level that is in the most open pairs, then give each factor, in random order, its best level.
    std::size_t first = 0;
    int first_level = 0, most = 0;
    for (std::size_t f = 0; f < num_levels.size(); ++f) {
      for (int level = 0; level < num_levels[f]; ++level) {
        if (open.left(f, level) > most) most = open.left(f, level), first = f, first_level = level;
      }
    }
    if (most == 0) return rows;
    std::vector<int> row(num_levels.size(), kUnset);
    row[first] = first_level;
    std::vector<std::size_t> order(num_levels.size());
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t n = order.size(); n > 1; --n) {
      std::swap(order[n - 1], order[static_cast<std::size_t>(random.integer(0, static_cast<index_t>(n) - 1))]);
    }
    for (std::size_t f : order) {
      if (row[f] != kUnset) continue;
      int best = -1, chosen = 0;
      const int shift = static_cast<int>(random.integer(0, num_levels[f] - 1));
      for (int n = 0; n < num_levels[f]; ++n) {
        const int level = (n + shift) % num_levels[f], gain = open.gain(row, f, level);
        if (gain > best) best = gain, chosen = level;
      }
      row[f] = chosen;
    }
    open.close(row);
    rows.push_back(row);
  }
}

}  // namespace multihead::test
