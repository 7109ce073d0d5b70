// From the sums of a head to scores, labels and numbers. A label needs its score at or above a threshold that random
// maps do not reach; docs/lens.md says where each comes from.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "multihead/lens/roles.hpp"

namespace multihead::lens {

/// One role of one head.
struct RoleScore {
  double lift = 0;                        ///< broad: the normalised entropy; rare_word: of hits; parked: of its sink
  double mass = 0, chance = 0;            ///< lift = (mass - chance) / (1 - chance)
  std::optional<double> hit = {};         ///< share of eligible queries whose largest weight is on a target
  index_t eligible = 0;                   ///< queries
  std::optional<Interval> interval = {};  ///< 95 % of lift; none with fewer than two segments
  double threshold = 0;
  bool passed = false;
  double strength = 0;  ///< score / threshold, by which labels are ordered

  /// The same over queries that leave at least half of their weight to keys that are neither first nor special, after
  /// those are dropped and each row is brought to a sum of 1.
  struct Active {
    double lift = 0, hit = 0;
    double queries_left = 0;  ///< share of the eligible ones
  };
  std::optional<Active> active = {};

  // Offsets only.
  std::optional<index_t> offset = {};       ///< which
  std::optional<double> share_nearby = {};  ///< its part of the mass within 5 (beyond: 8) positions
  std::optional<bool> positional = {};      ///< passed, and hit >= 0.9: Voita et al. 2019
  std::optional<bool> majority = {};        ///< mass > 0.5: Clark et al. 2019
  // Sinks only.
  std::optional<double> value_share = {};  ///< their share once weights are multiplied by value norms
  std::optional<double> sink_rate = {};    ///< segments above the line of Gu et al. 2024
  // Others.
  std::optional<double> second_hit = {};      ///< rare_word: hits of the two rarest
  std::optional<double> mass_per_entry = {};  ///< induction: as Olsson et al. 2022 average it
  std::optional<double> lift_on_text = {};    ///< duplicate, induction: where `lift` is of repeated tokens
  /// previous, duplicate, induction: sum(A D) / sum(A) with D[i,j] = [j in S(i)], the score of other detectors. Queries
  /// without a target count, so a perfect induction head has 0.5 on two copies.
  std::optional<double> share_of_all = {};
};

struct HeadRoles {
  std::array<std::optional<RoleScore>, kNumRoles> scores;  ///< by Role; none: no eligible query
  std::vector<Role> labels;                                ///< those passed, by score / threshold
  std::optional<RoleSums::Spread> spread, value_spread;
  std::optional<double> effective_keys;     ///< exp(entropy)
  std::optional<double> output_norm;        ///< mean |z_i w_o|
  std::optional<double> output_norm_share;  ///< of the mean of the layer's heads

  const std::optional<RoleScore>& score(Role role) const { return scores[static_cast<std::size_t>(role)]; }
  bool has(Role role) const { return score(role) && score(role)->passed; }
};

struct RoleEvidence {
  const RoleSums* text = nullptr;
  const RoleSums* repeated = nullptr;            ///< null: duplicate and induction are judged on the text
  std::optional<double> layer_output_norm = {};  ///< mean of output_norm() over the layer's heads
  const Resamples* text_resamples = nullptr;     ///< null: no intervals
  const Resamples* repeated_resamples = nullptr;
};

MULTIHEAD_API HeadRoles judge_roles(const RoleEvidence& evidence);

}  // namespace multihead::lens
