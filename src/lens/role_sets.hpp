// Which set of RoleTargets is which.
#pragma once

#include "multihead/types.hpp"

namespace multihead::lens {

constexpr int kReach = 8;  ///< offsets -8 .. 8 are sets 0 .. 16
constexpr int offset_set(index_t offset) { return static_cast<int>(offset) + kReach; }
constexpr int kFirstSet = 17, kSeparatorSet = 18, kPunctuationSet = 19, kLocalSet = 20, kLongSet = 21,
              kDuplicateSet = 22, kInductionSet = 23, kRarestSet = 24, kTwoRarestSet = 25, kEntropySet = 26;
constexpr index_t kLocalReach = 5;
constexpr index_t kCommonTokens = 500;  ///< a rarest token among these is not rare (Voita et al. 2019, section 5.3)

}  // namespace multihead::lens
