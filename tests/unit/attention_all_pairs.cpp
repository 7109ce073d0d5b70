// The generator of the pairwise sweep leaves no pair out.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/all_pairs.hpp"

namespace multihead::test {
namespace {

TEST(AllPairs, HasEveryPairOfLevelsInFewRows) {
  const std::vector<int> num_levels{8, 7, 2, 4, 1, 3, 2, 6};
  Random random(run_seed());
  const auto rows = all_pairs(num_levels, random);
  for (std::size_t f = 0; f < num_levels.size(); ++f) {
    for (std::size_t g = f + 1; g < num_levels.size(); ++g) {
      std::set<std::pair<int, int>> seen;
      for (const auto& row : rows) seen.emplace(row[f], row[g]);
      EXPECT_EQ(static_cast<int>(seen.size()), num_levels[f] * num_levels[g]) << "factors " << f << ", " << g;
    }
  }
  EXPECT_LT(rows.size(), 2u * 8 * 7);  // all combinations would be 16,128
}

}  // namespace
}  // namespace multihead::test
