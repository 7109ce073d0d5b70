// Thresholds and rules of labels.
#include "multihead/lens/role_labels.hpp"

#include <algorithm>
#include <cmath>

#include "lens/role_sets.hpp"

namespace multihead::lens {
namespace {

constexpr double kLine = 0.4;       // random maps of any sharpness stay below 0.1, true heads with 55 % of noise above
constexpr double kLongLine = 0.25;  // chance is about 0.5 here, so this is a mass of 0.65
constexpr double kLongMostEntropy = 0.9;
constexpr double kBroadLine = 0.95;     // maps of normal random scores have 0.87 to 0.91
constexpr double kShareNearby = 0.7;    // below it, a soft kernel around the query
constexpr double kSecondHitLine = 0.5;  // Voita et al. 2019, section 5.3
constexpr double kPositionalHit = 0.9;  // Voita et al. 2019, section 5.1
constexpr double kMajority = 0.5;       // Clark et al. 2019, section 3.1
constexpr double kParkedValueShare = 0.5, kParkedOutput = 0.25;

class Judge {
 public:
  explicit Judge(const RoleEvidence& evidence) : evidence_(evidence), text_(*evidence.text) {}

  HeadRoles run() {
    numbers();
    offsets();
    sinks();
    spread_out();
    rare();
    copies(Role::duplicate, kDuplicateSet);
    copies(Role::induction, kInductionSet);
    labels();
    return std::move(head_);
  }

 private:
  std::optional<RoleScore> score_of(const RoleSums& sums, const Resamples* resamples, int which,
                                    double threshold) const {
    const SetSums& set = sums.set(which);
    if (set.eligible == 0) return std::nullopt;
    const auto n = static_cast<double>(set.eligible);
    RoleScore score{.lift = (set.mass - set.chance) / (n - set.chance),
                    .mass = set.mass / n,
                    .chance = set.chance / n,
                    .hit = set.hits / n,
                    .eligible = set.eligible,
                    .threshold = threshold};
    score.passed = score.lift >= threshold;
    if (resamples != nullptr) score.interval = resamples->lift_interval(sums.blocks(which));
    if (set.active > 0) {
      const auto active = static_cast<double>(set.active);
      score.active = {.lift = (set.active_mass - set.active_chance) / (active - set.active_chance),
                      .hit = set.active_hits / active,
                      .queries_left = active / n};
    }
    return score;
  }
  std::optional<RoleScore> on_text(int which, double threshold) const {
    return score_of(text_, evidence_.text_resamples, which, threshold);
  }
  std::optional<RoleScore>& score(Role role) { return head_.scores[static_cast<std::size_t>(role)]; }

  void numbers() {
    head_.spread = text_.spread(), head_.value_spread = text_.value_spread();
    if (head_.spread) head_.effective_keys = std::exp(head_.spread->entropy);
    head_.output_norm = text_.output_norm();
    if (head_.output_norm && evidence_.layer_output_norm && *evidence_.layer_output_norm > 0) {
      head_.output_norm_share = *head_.output_norm / *evidence_.layer_output_norm;
    }
  }

  static double share_of_all(const RoleSums& sums, int which) {
    return sums.set(which).mass / static_cast<double>(sums.num_queries());
  }

  std::optional<RoleScore> offset_score(index_t offset) const {
    std::optional<RoleScore> found = on_text(offset_set(offset), kLine);
    if (!found) return found;
    const SetSums& set = text_.set(offset_set(offset));
    found->offset = offset;
    found->share_nearby = set.near > 0 ? set.mass / set.near : 0;
    found->passed = found->passed && *found->share_nearby >= kShareNearby;
    found->positional = found->passed && *found->hit >= kPositionalHit;
    found->majority = found->mass > kMajority;
    if (offset == -1) found->share_of_all = share_of_all(text_, offset_set(offset));
    return found;
  }

  void offsets() {
    score(Role::previous) = offset_score(-1), score(Role::next) = offset_score(1), score(Role::self) = offset_score(0);
    for (index_t offset = -kReach; offset <= kReach; ++offset) {
      if (std::abs(offset) <= 1) continue;
      const std::optional<RoleScore> found = offset_score(offset);
      if (found && (!score(Role::offset) || found->lift > score(Role::offset)->lift)) score(Role::offset) = found;
    }
  }

  void sinks() {
    for (const auto& [role, which] : {std::pair(Role::first, kFirstSet), std::pair(Role::separator, kSeparatorSet),
                                      std::pair(Role::punctuation, kPunctuationSet)}) {
      std::optional<RoleScore>& found = score(role) = on_text(which, kLine);
      if (!found) continue;
      found->sink_rate = text_.sink_rate(role);
      if (!head_.output_norm) continue;  // value norms come with output norms
      const SetSums& set = text_.set(which);
      found->value_share = set.value_mass / static_cast<double>(set.eligible);
      park(*found);
    }
  }

  /// The strongest sink of the head counts. A head without a sink is not parked; without value norms nobody knows.
  void park(const RoleScore& sink) {
    if (!head_.output_norm_share || (score(Role::parked) && score(Role::parked)->lift >= sink.lift)) return;
    RoleScore parked = sink;
    parked.active.reset();
    parked.passed =
        sink.passed && *sink.value_share <= kParkedValueShare * sink.mass && *head_.output_norm_share <= kParkedOutput;
    score(Role::parked) = parked;
  }

  void spread_out() {
    const auto passed = [&](std::initializer_list<Role> roles) {
      return std::ranges::any_of(roles, [&](Role role) { return head_.has(role); });
    };
    std::optional<RoleScore>& broad = score(Role::broad) = on_text(kEntropySet, kBroadLine);
    if (broad) broad->hit.reset();
    if (std::optional<RoleScore>& local = score(Role::local) = on_text(kLocalSet, kLine)) {
      local->passed = local->passed && !passed({Role::previous, Role::next, Role::self, Role::offset, Role::first,
                                                Role::separator, Role::punctuation});
    }
    if (std::optional<RoleScore>& far = score(Role::long_range) = on_text(kLongSet, kLongLine)) {
      far->passed = far->passed && broad && broad->lift < kLongMostEntropy &&
                    !passed({Role::first, Role::separator, Role::punctuation});
    }
  }

  void rare() {
    std::optional<RoleScore>& found = score(Role::rare_word) = on_text(kRarestSet, kLine);
    if (!found) return;
    const std::optional<RoleScore> two = on_text(kTwoRarestSet, kSecondHitLine);
    if (!two) return;
    found->second_hit = two->hit;
    found->passed = found->passed || two->passed;
  }

  void copies(Role role, int which) {
    const bool repeats = evidence_.repeated != nullptr && evidence_.repeated->set(which).eligible > 0;
    const RoleSums& sums = repeats ? *evidence_.repeated : text_;
    std::optional<RoleScore>& found = score(role) =
        score_of(sums, repeats ? evidence_.repeated_resamples : evidence_.text_resamples, which, kLine);
    if (!found) return;
    const SetSums& set = sums.set(which);
    found->share_of_all = share_of_all(sums, which);
    if (role == Role::induction) found->mass_per_entry = set.mass / set.entries;
    if (!repeats) return;
    if (const std::optional<RoleScore> text = on_text(which, kLine)) found->lift_on_text = text->lift;
  }

  /// A rare word may have passed by its second threshold.
  void labels() {
    for (int n = 0; n < kNumRoles; ++n) {
      std::optional<RoleScore>& found = head_.scores[static_cast<std::size_t>(n)];
      if (!found) continue;
      found->strength = found->lift / found->threshold;
      if (found->second_hit) found->strength = std::max(found->strength, *found->second_hit / kSecondHitLine);
      if (found->passed) head_.labels.push_back(static_cast<Role>(n));
    }
    std::ranges::stable_sort(head_.labels, [&](Role a, Role b) { return score(a)->strength > score(b)->strength; });
  }

  const RoleEvidence& evidence_;
  const RoleSums& text_;
  HeadRoles head_;
};

}  // namespace

HeadRoles judge_roles(const RoleEvidence& evidence) { return Judge(evidence).run(); }

}  // namespace multihead::lens
