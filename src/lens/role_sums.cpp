// Sums of a head over the queries of a segment; roles.hpp has the formulas.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/require.hpp"
#include "lens/role_sets.hpp"
#include "multihead/lens/roles.hpp"

namespace multihead::lens {
namespace {

constexpr double kSinkLine = 0.3;     // Gu et al. 2024, "When attention sink emerges", section 3
constexpr double kActiveLeast = 0.5;  // a query whose sinks take more than that is idle

/// Returns the normalised entropy, 0 where only one key is seen.
double add_spread(RoleSums::Spread& sum, std::span<const double> row, TextSpan seen, index_t i) {
  double total = 0, most = 0, distance = 0, entropy = 0;
  for (index_t j = seen.begin; j < seen.end; ++j) {
    const double p = row[static_cast<std::size_t>(j)];
    total += p, most = std::max(most, p), distance += p * static_cast<double>(std::abs(i - j));
    if (p > 0) entropy -= p * std::log(p);
  }
  entropy = std::max(0.0, entropy / total + std::log(total));  // of p / total
  sum.confidence += most / total, sum.distance += distance / total, sum.entropy += entropy;
  const index_t keys = seen.end - seen.begin;
  const double normalised = keys > 1 ? entropy / std::log(static_cast<double>(keys)) : 0;
  sum.normalised_entropy += normalised;
  return normalised;
}

std::optional<RoleSums::Spread> mean_of(const RoleSums::Spread& sum, index_t rows, index_t rows_of_several_keys) {
  if (rows == 0) return std::nullopt;
  const auto n = static_cast<double>(rows);
  return RoleSums::Spread{
      .confidence = sum.confidence / n,
      .distance = sum.distance / n,
      .entropy = sum.entropy / n,
      .normalised_entropy = sum.normalised_entropy / static_cast<double>(std::max<index_t>(rows_of_several_keys, 1))};
}

void check(const RoleTargets& targets, const HeadObservation& head) {
  const index_t tokens = targets.num_tokens();
  const auto count = static_cast<std::size_t>(tokens);
  require(head.probs.shape(0) == tokens && head.probs.shape(1) == tokens, "RoleSums::add",
          "probs must have a query and a key for each token",
          {{"queries", head.probs.shape(0)}, {"keys", head.probs.shape(1)}, {"tokens", tokens}});
  require((head.value_norms.empty() || head.value_norms.size() == count) &&
              (head.output_norms.empty() || head.output_norms.size() == count),
          "RoleSums::add", "norms must have one entry for each token",
          {{"value_norms", head.value_norms.size()}, {"output_norms", head.output_norms.size()}, {"tokens", tokens}});
}

}  // namespace

struct RoleSums::Buffers {
  std::vector<double> probs, value_probs;  // [T]

  explicit Buffers(std::size_t tokens) : probs(tokens), value_probs(tokens) {}
};

/// Query i with what all roles need of it.
struct RoleSums::Row {
  index_t i = 0;
  TextSpan seen = {};
  std::span<const double> probs = {}, value_probs = {};  ///< [T]; those of values sum to 1, or are absent
  index_t top = 0, active_top = 0;                       ///< keys of the largest prob, among all or all but sinks
  double near = 0, wide = 0;                             ///< mass within 5 and within 8 positions
  double total = 0, value_total = 0, sink_mass = 0;
  index_t num_sinks = 0;  ///< visible ones
};

void RoleSums::add_row(const RoleTargets& targets, const Row& row) {
  const auto keys_seen = static_cast<double>(row.seen.end - row.seen.begin);
  const double left = 1.0 - row.sink_mass, keys_left = keys_seen - static_cast<double>(row.num_sinks);
  for (int which = 0; which < RoleTargets::kNumSets; ++which) {
    const std::span<const std::int32_t> keys = targets.keys_of(which, row.i);
    const auto size = static_cast<double>(keys.size());
    if (keys.empty() || size == keys_seen) continue;
    SetSums& sums = sets_[static_cast<std::size_t>(which)];
    double mass = 0, value_mass = 0, active_mass = 0, active_size = 0;
    bool hit = false, active_hit = false;
    for (const std::int32_t j : keys) {
      const double prob = row.probs[static_cast<std::size_t>(j)];
      mass += prob;
      if (!row.value_probs.empty()) value_mass += row.value_probs[static_cast<std::size_t>(j)];
      hit = hit || j == row.top;
      if (targets.is_sink(j)) continue;
      active_mass += prob, active_size += 1;
      active_hit = active_hit || j == row.active_top;
    }
    const bool counts_hits = which == kRarestSet || which == kTwoRarestSet;
    if (counts_hits) mass = hit ? 1 : 0;
    sums.mass += mass, sums.chance += size / keys_seen, sums.hits += hit ? 1 : 0, sums.value_mass += value_mass;
    const bool is_far_offset = which <= 2 * kReach && std::abs(which - kReach) > kLocalReach;
    sums.near += is_far_offset ? row.wide : row.near;
    sums.entries += size, ++sums.eligible;
    blocks_[static_cast<std::size_t>(which)].add(num_segments_, {.mass = mass, .chance = size / keys_seen, .count = 1});
    if (active_size == 0 || active_size >= keys_left || left < kActiveLeast) continue;
    sums.active_mass += counts_hits ? (active_hit ? 1 : 0) : active_mass / left;
    sums.active_chance += active_size / keys_left, sums.active_hits += active_hit ? 1 : 0, ++sums.active;
  }
}

RoleSums::Row RoleSums::read_row(const RoleTargets& targets, const HeadObservation& head, index_t i, Buffers& buffers) {
  Row row{.i = i, .seen = targets.visible(i), .probs = buffers.probs};
  row.top = row.active_top = -1;
  for (index_t j = 0; j < targets.num_tokens(); ++j) {
    const auto at = static_cast<std::size_t>(j);
    const double prob = buffers.probs[at] = head.probs(i, j);
    row.total += prob;
    if (!head.value_norms.empty()) row.value_total += buffers.value_probs[at] = prob * head.value_norms[at];
    if (row.top < 0 || prob > buffers.probs[static_cast<std::size_t>(row.top)]) row.top = j;
    if (std::abs(i - j) <= kLocalReach) row.near += prob;
    if (std::abs(i - j) <= kReach) row.wide += prob;
    if (targets.is_sink(j)) {
      row.sink_mass += prob, row.num_sinks += j >= row.seen.begin && j < row.seen.end ? 1 : 0;
    } else if (row.active_top < 0 || prob > buffers.probs[static_cast<std::size_t>(row.active_top)]) {
      row.active_top = j;
    }
  }
  if (row.value_total > 0) {
    for (double& prob : buffers.value_probs) prob /= row.value_total;
    row.value_probs = buffers.value_probs;
  }
  return row;
}

void RoleSums::add_spreads(const Row& row) {
  ++rows_;
  const double entropy = add_spread(sum_, row.probs, row.seen, row.i);
  if (row.seen.end - row.seen.begin > 1) {
    SetSums& sums = sets_[kEntropySet];
    sums.mass += entropy, ++sums.eligible;
    blocks_[kEntropySet].add(num_segments_, {.mass = entropy, .chance = 0, .count = 1});
  }
  if (row.value_probs.empty()) return;
  ++value_rows_;
  add_spread(value_sum_, row.value_probs, row.seen, row.i);
}

void RoleSums::add(const RoleTargets& targets, const HeadObservation& head) {
  check(targets, head);
  Buffers buffers(static_cast<std::size_t>(targets.num_tokens()));
  std::array<double, 3> on_sinks{};
  index_t rows = 0;
  for (index_t i = 1; i < targets.num_tokens(); ++i) {
    const Row row = read_row(targets, head, i, buffers);
    if (!(row.total > 0)) continue;  // sees no key
    ++rows;
    add_spreads(row);
    if (!head.output_norms.empty()) output_norm_ += head.output_norms[static_cast<std::size_t>(i)], ++output_rows_;
    add_row(targets, row);
    for (int s = 0; s < 3; ++s) {
      for (const std::int32_t j : targets.keys_of(kFirstSet + s, i)) {
        on_sinks[static_cast<std::size_t>(s)] += row.probs[static_cast<std::size_t>(j)];
      }
    }
  }
  for (std::size_t s = 0; s < 3; ++s) {
    if (rows == 0 || targets.set(kFirstSet + static_cast<int>(s)).keys.empty()) continue;
    ++sink_segments_[s];
    if (on_sinks[s] / static_cast<double>(rows) > kSinkLine) ++sinks_over_[s];
  }
  ++num_segments_, num_queries_ += targets.num_tokens();
}

std::optional<RoleSums::Spread> RoleSums::spread() const { return mean_of(sum_, rows_, sets_[kEntropySet].eligible); }

std::optional<RoleSums::Spread> RoleSums::value_spread() const {
  return mean_of(value_sum_, value_rows_, sets_[kEntropySet].eligible);
}

std::optional<double> RoleSums::output_norm() const {
  if (output_rows_ == 0) return std::nullopt;
  return output_norm_ / static_cast<double>(output_rows_);
}

std::optional<double> RoleSums::sink_rate(Role sink) const {
  const auto which = static_cast<std::size_t>(sink) - static_cast<std::size_t>(Role::first);
  if (which >= sink_segments_.size() || sink_segments_[which] == 0) return std::nullopt;
  return static_cast<double>(sinks_over_[which]) / static_cast<double>(sink_segments_[which]);
}

}  // namespace multihead::lens
