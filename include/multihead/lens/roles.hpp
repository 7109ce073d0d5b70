// Which role a head has, from its maps of probabilities, with a score that chance alone does not raise.
//
//   S_r(i)   the keys that query i would look at if the head had role r
//   V(i)     the keys that it can see, n_i of them
//   E_r      the queries i >= 1 with S_r(i) neither empty nor all of V(i)
//
//   mass_r   = mean over E_r of sum_{j in S_r(i)} A[i,j]      chance_r = mean over E_r of |S_r(i)| / n_i
//   lift_r   = (mass_r - chance_r) / (1 - chance_r)           0: uniform attention, 1: nothing else, < 0: avoidance
//   hit_r    = share of E_r whose largest weight lies in S_r(i)
//
// Without an eligible query there is no score, never 0. docs/lens.md gives S_r and the threshold of every role.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "multihead/lens.hpp"
#include "multihead/lens/bootstrap.hpp"
#include "multihead/lens/corpus.hpp"

namespace multihead::lens {

enum class Role : std::uint8_t {
  previous,     ///< {i - 1}
  next,         ///< {i + 1}
  self,         ///< {i}
  offset,       ///< {i + k}, the best k in [-8, 8] but these three
  parked,       ///< a sink of the next three that writes next to nothing
  first,        ///< {0}: [CLS] or the like
  separator,    ///< special tokens but the first
  punctuation,  ///< tokens of punctuation only
  local,        ///< |i - j| <= 5
  long_range,   ///< |i - j| >= max(16, T / 4), neither first nor special
  broad,        ///< entropy next to that of uniform attention
  duplicate,    ///< j < i with the same token
  induction,    ///< j <= i, the token after an earlier copy of token i
  rare_word,    ///< the rarest visible token
};
constexpr int kNumRoles = 14;
/// "previous", "long_range"; "previous" is also what JSON and flags say.
MULTIHEAD_API std::string_view role_name(Role role);

/// V(i) of a sequence: all of it, or a part by position.
struct Visibility {
  bool causal = false;                       ///< j <= i
  std::optional<index_t> window_left = {};   ///< j >= i - window_left
  std::optional<index_t> window_right = {};  ///< j <= i + window_right

  friend bool operator==(const Visibility&, const Visibility&) = default;
};

/// S_r(i) of one segment for every role: what all heads share.
class MULTIHEAD_API RoleTargets {
 public:
  /// @param frequencies  of the text, for the rarest token
  /// @throws ShapeError  if the lists of the segment differ in length, an id has no frequency, or a window is negative
  RoleTargets(const Segment& segment, const TokenFrequencies& frequencies, const Visibility& visibility = {});

  struct Set {
    std::vector<std::int32_t> begin;  ///< [T + 1] the targets of query i: keys[begin[i] .. begin[i + 1])
    std::vector<std::int32_t> keys;
  };
  /// Offsets -8 .. 8, first, separator, punctuation, local, long_range, duplicate, induction, rarest, two rarest.
  static constexpr int kNumSets = 26;

  index_t num_tokens() const { return static_cast<index_t>(visible_.size()); }
  const Set& set(int which) const { return sets_[static_cast<std::size_t>(which)]; }
  /// S(i)
  std::span<const std::int32_t> keys_of(int which, index_t i) const {
    const Set& keys = set(which);
    const std::int32_t begin = keys.begin[static_cast<std::size_t>(i)],
                       end = keys.begin[static_cast<std::size_t>(i) + 1];
    return std::span(keys.keys).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }
  TextSpan visible(index_t i) const { return visible_[static_cast<std::size_t>(i)]; }  ///< V(i) = [begin, end)
  bool is_sink(index_t j) const { return sinks_[static_cast<std::size_t>(j)] != 0; }   ///< the first, or special

 private:
  std::array<Set, kNumSets> sets_;
  std::vector<TextSpan> visible_;
  std::vector<std::uint8_t> sinks_;
};

/// One head on one segment.
struct HeadObservation {
  HeadMap probs;  ///< [T, T], any strides
  std::span<const double> value_norms =
      {};  ///< [T] |v_j w_o|: what key j gives if it is looked at alone; may be absent
  std::span<const double> output_norms = {};  ///< [T] |z_i w_o|: what query i's result adds; may be absent
};

/// Sums of one role over queries: of all eligible ones and, below, of those that are active.
struct SetSums {
  double mass = 0, chance = 0, hits = 0, near = 0, value_mass = 0, entries = 0;
  index_t eligible = 0;
  double active_mass = 0, active_chance = 0, active_hits = 0;
  index_t active = 0;
};

/// One head over many segments. Memory does not grow with their number.
class MULTIHEAD_API RoleSums {
 public:
  /// Adds a segment. Sequences of one object are of one kind: text, or repeated random tokens.
  /// @throws ShapeError  if extents disagree
  /// Cost  O(T^2), two logarithms an entry.
  void add(const RoleTargets& targets, const HeadObservation& head);

  const SetSums& set(int which) const { return sets_[static_cast<std::size_t>(which)]; }
  const BlockSums& blocks(int which) const { return blocks_[static_cast<std::size_t>(which)]; }
  index_t num_segments() const { return num_segments_; }
  index_t num_queries() const { return num_queries_; }  ///< of all segments, query 0 too

  /// Means over the queries i >= 1.
  struct Spread {
    double confidence = 0, distance = 0, entropy = 0, normalised_entropy = 0;
  };
  std::optional<Spread> spread() const;        ///< of the weights
  std::optional<Spread> value_spread() const;  ///< of weights times value norms, each row to a sum of 1
  std::optional<double> output_norm() const;
  /// Share of segments in which the mean weight on the keys of a sink role is above 0.3 (Gu et al. 2024; here i >= 1).
  std::optional<double> sink_rate(Role sink) const;

 private:
  struct Row;
  struct Buffers;
  static Row read_row(const RoleTargets& targets, const HeadObservation& head, index_t i, Buffers& buffers);
  void add_spreads(const Row& row);
  void add_row(const RoleTargets& targets, const Row& row);

  std::array<SetSums, RoleTargets::kNumSets + 1> sets_ = {};  // the last one: normalised entropy as mass
  std::array<BlockSums, RoleTargets::kNumSets + 1> blocks_ = {};
  Spread sum_ = {}, value_sum_ = {};
  index_t rows_ = 0, value_rows_ = 0, output_rows_ = 0, num_segments_ = 0, num_queries_ = 0;
  double output_norm_ = 0;
  std::array<index_t, 3> sink_segments_ = {}, sinks_over_ = {};
};

}  // namespace multihead::lens
