// S_r(i) for every role r and query i of a segment.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "core/require.hpp"
#include "lens/role_sets.hpp"
#include "multihead/lens/roles.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace multihead::lens {
namespace {

constexpr auto kFunction = "RoleTargets";

bool is_punctuation_token(std::string_view token) {
  index_t at = 0;
  while (at < static_cast<index_t>(token.size())) {
    const Utf8Char c = read_utf8(token, at);
    if (c.num_bytes == 0 || !is_punctuation(c.code)) return false;
    at += c.num_bytes;
  }
  return at > 0;
}

void check(const Segment& segment, const TokenFrequencies& frequencies, const Visibility& visibility) {
  const std::size_t n = segment.ids.size();
  require(segment.tokens.size() == n && segment.special.size() == n, kFunction,
          "a segment's lists must have one length",
          {{"ids", n}, {"tokens", segment.tokens.size()}, {"special", segment.special.size()}});
  for (const index_t id : segment.ids) {
    require(id >= 0 && id < static_cast<index_t>(frequencies.ranks.size()), kFunction, "an id must have a frequency",
            {{"id", id}, {"frequencies", frequencies.ranks.size()}});
  }
  require(visibility.window_left.value_or(0) >= 0 && visibility.window_right.value_or(0) >= 0, kFunction,
          "a window must not be negative",
          {{"window_left", visibility.window_left.value_or(0)}, {"window_right", visibility.window_right.value_or(0)}});
}

TextSpan visible_keys(index_t i, index_t tokens, const Visibility& visibility) {
  index_t begin = 0, end = visibility.causal ? i + 1 : tokens;
  if (visibility.window_left) begin = std::max(begin, i - std::min(*visibility.window_left, i));
  if (visibility.window_right) end = std::min(end, i + 1 + std::min(*visibility.window_right, tokens - i - 1));
  return {begin, end};
}

/// Positions that a query may be looking for because they are rare: the rarest token, and the two rarest.
struct Rare {
  std::vector<index_t> rarest, two_rarest;
};

Rare rare_tokens(const std::vector<std::pair<index_t, index_t>>& by_rank) {  // (-rank, position), sorted: rarest first
  Rare rare;
  for (const auto& [rank, position] : by_rank) {
    const bool tied_first = rank == by_rank.front().first;
    const bool tied_second = by_rank.size() > 1 && rank == by_rank[1].first;
    if (tied_first) rare.rarest.push_back(position);
    if (tied_first || tied_second) rare.two_rarest.push_back(position);
    if (!tied_first && !tied_second) break;
  }
  std::ranges::sort(rare.rarest);
  std::ranges::sort(rare.two_rarest);
  return rare;
}

}  // namespace

std::string_view role_name(Role role) {
  constexpr std::array<std::string_view, kNumRoles> kNames = {
      "previous",    "next",  "self",       "offset", "parked",    "first",     "separator",
      "punctuation", "local", "long_range", "broad",  "duplicate", "induction", "rare_word"};
  return kNames[static_cast<std::size_t>(role)];
}

RoleTargets::RoleTargets(const Segment& segment, const TokenFrequencies& frequencies, const Visibility& visibility) {
  check(segment, frequencies, visibility);
  const index_t tokens = segment.num_tokens();
  const auto at = [](index_t n) { return static_cast<std::size_t>(n); };
  std::vector<std::uint8_t> punctuation(at(tokens));
  std::vector<std::pair<index_t, index_t>> by_rank;
  sinks_.resize(at(tokens));
  for (index_t j = 0; j < tokens; ++j) {
    const bool special = segment.special[at(j)] != 0;
    sinks_[at(j)] = j == 0 || special ? 1 : 0;
    punctuation[at(j)] = !special && is_punctuation_token(segment.tokens[at(j)]) ? 1 : 0;
    if (!special) by_rank.emplace_back(-frequencies.ranks[at(segment.ids[at(j)])], j);
  }
  std::ranges::sort(by_rank);
  std::map<index_t, std::vector<index_t>> copies;  // id -> positions before i
  const index_t far = std::max<index_t>(16, tokens / 4);

  for (index_t i = 0; i < tokens; ++i) {
    const TextSpan seen = visible_keys(i, tokens, visibility);
    visible_.push_back(seen);
    for (Set& set : sets_) set.begin.push_back(static_cast<std::int32_t>(set.keys.size()));
    const auto add = [&](int which, index_t j) {
      if (j >= seen.begin && j < seen.end) sets_[at(which)].keys.push_back(static_cast<std::int32_t>(j));
    };
    for (index_t offset = -kReach; offset <= kReach; ++offset) add(offset_set(offset), i + offset);
    add(kFirstSet, 0);
    for (index_t j = seen.begin; j < seen.end; ++j) {
      if (j > 0 && segment.special[at(j)] != 0) add(kSeparatorSet, j);
      if (punctuation[at(j)] != 0) add(kPunctuationSet, j);
      if (std::abs(i - j) <= kLocalReach) add(kLocalSet, j);
      if (std::abs(i - j) >= far && sinks_[at(j)] == 0) add(kLongSet, j);
    }
    std::vector<index_t>& earlier = copies[segment.ids[at(i)]];
    for (const index_t j : earlier) add(kDuplicateSet, j), add(kInductionSet, j + 1);
    earlier.push_back(i);
    std::vector<std::pair<index_t, index_t>> seen_by_rank;
    std::ranges::copy_if(by_rank, std::back_inserter(seen_by_rank),
                         [&](const auto& entry) { return entry.second >= seen.begin && entry.second < seen.end; });
    if (!seen_by_rank.empty() && -seen_by_rank.front().first >= kCommonTokens) {
      const Rare rare = rare_tokens(seen_by_rank);
      for (const index_t j : rare.rarest) add(kRarestSet, j);
      for (const index_t j : rare.two_rarest) add(kTwoRarestSet, j);
    }
  }
  for (Set& set : sets_) set.begin.push_back(static_cast<std::int32_t>(set.keys.size()));
}

}  // namespace multihead::lens
