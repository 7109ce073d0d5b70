// Pairwise testing: few rows in which every pair of levels of every two factors occurs.
#pragma once

#include <vector>

#include "tests/support/random.hpp"

namespace multihead::test {

/// Rows of one level a factor, levels in [0, num_levels[factor]). Greedy, after Cohen et al. 1997 (AETG).
std::vector<std::vector<int>> all_pairs(const std::vector<int>& num_levels, Random& random);

}  // namespace multihead::test
