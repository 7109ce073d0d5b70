// Scores of roles against the formulas of others, their borders, and what they say where nothing can be judged.
#include <gtest/gtest.h>

#include "lens/small_model.hpp"
#include "lens/synthetic_heads.hpp"
#include "models/parameter_walk.hpp"
#include "multihead/lens/null_model.hpp"
#include "support/error_text.hpp"

namespace multihead::lens {
namespace {

TokenFrequencies any_frequencies() { return rank_tokens(std::vector<index_t>(SyntheticText::kTypes + 2)); }

/// [CLS] and `distinct` tokens, `repeats` times.
Segment repeated_segment(index_t distinct, index_t repeats) {
  std::vector<index_t> ids;
  for (index_t t = 0; t < distinct * repeats; ++t) ids.push_back(100 + t % distinct);
  return SyntheticText::segment(ids, true);
}

HeadRoles judge(const Segment& segment, const Tensor<float, 2>& map, const Visibility& visibility = {.causal = true}) {
  RoleSums sums;
  sums.add(RoleTargets(segment, any_frequencies(), visibility), {.probs = map});
  return judge_roles({.text = &sums});
}

/// Each row on one key, chosen by `key`; negative: on key 0.
template <class Key>
Tensor<float, 2> sharp_map(index_t tokens, const Key& key) {
  Tensor<float, 2> map({tokens, tokens});
  for (index_t i = 0; i < tokens; ++i) map(i, std::max<index_t>(key(i), 0)) = 1;
  return map;
}

/// The "mul" score of TransformerLens' detect_head: sum(A D) / sum(A), D[i,j] = 1 where the head should look.
template <class Target>
double detect_head(HeadMap map, const Target& target) {
  double on_target = 0, total = 0;
  for (index_t i = 0; i < map.shape(0); ++i) {
    for (index_t j = 0; j <= i; ++j) {
      on_target += target(i, j) ? map(i, j) : 0;
      total += map(i, j);
    }
  }
  return on_target / total;
}

TEST(RoleScores, AgreeWithDetectHead) {
  test::Random random(test::run_seed());
  const Segment segment = repeated_segment(20, 3);
  const Tensor<float, 2> map = map_of_rule(
      segment, true, [](const Segment& s, index_t, index_t, index_t) { return std::vector<double>(s.ids.size()); }, 0.9,
      random);
  const HeadRoles found = judge(segment, map);
  const auto id = [&](index_t j) { return segment.ids[static_cast<std::size_t>(j)]; };
  EXPECT_NEAR(*found.score(Role::previous)->share_of_all,
              detect_head(map, [](index_t i, index_t j) { return j == i - 1; }), 1e-6);
  EXPECT_NEAR(*found.score(Role::duplicate)->share_of_all,
              detect_head(map, [&](index_t i, index_t j) { return j < i && id(j) == id(i); }), 1e-6);
  EXPECT_NEAR(*found.score(Role::induction)->share_of_all,
              detect_head(map, [&](index_t i, index_t j) { return j > 0 && j - 1 < i && id(j - 1) == id(i); }), 1e-6);
}

/// What is known of a perfect induction head: 0.49 and 0.74 by detect_head, 1 and 0.5 by Olsson et al., 1 by lift.
TEST(RoleScores, OfAPerfectInductionHeadAreOneWhateverTheNumberOfCopies) {
  for (const auto& [distinct, repeats, all, entry] :
       {std::tuple(63, 2, 63.0 / 127, 1.0), std::tuple(25, 4, 75.0 / 101, 0.5)}) {
    const Segment segment = repeated_segment(distinct, repeats);
    Tensor<float, 2> map({segment.num_tokens(), segment.num_tokens()});
    for (index_t i = 0; i < segment.num_tokens(); ++i) {
      const index_t copies = (i - 1) / distinct;  // before i
      if (i == 0 || copies == 0) map(i, 0) = 1;
      for (index_t n = 1; i > 0 && n <= copies; ++n) map(i, i - n * distinct + 1) = 1 / static_cast<float>(copies);
    }
    const HeadRoles found = judge(segment, map);
    EXPECT_NEAR(found.score(Role::induction)->lift, 1, 1e-6);
    EXPECT_NEAR(*found.score(Role::induction)->share_of_all, all, 1e-6);
    EXPECT_NEAR(*found.score(Role::induction)->mass_per_entry, entry, 1e-6);
    EXPECT_EQ(found.labels.front(), Role::induction);
  }
}

/// A share of the queries on the previous token, the rest far away.
HeadRoles previous_with(double share) {
  const index_t tokens = 201;
  const Segment segment = repeated_segment(200, 1);
  const auto right = static_cast<index_t>(share * 200 + 0.5);
  return judge(segment, sharp_map(tokens, [&](index_t i) { return i == 0 || i > right ? index_t{0} : i - 1; }));
}

TEST(RoleScores, KnowThePublishedLines) {
  EXPECT_TRUE(*previous_with(0.9).score(Role::previous)->positional);
  EXPECT_FALSE(*previous_with(0.895).score(Role::previous)->positional);
  EXPECT_TRUE(*previous_with(0.505).score(Role::previous)->majority);
  EXPECT_FALSE(*previous_with(0.495).score(Role::previous)->majority);
  const auto sink_rate = [](double weight) {
    const Segment segment = repeated_segment(40, 1);
    Tensor<float, 2> map({41, 41});
    for (index_t i = 1; i < 41; ++i) map(i, 0) = static_cast<float>(weight), map(i, i) = static_cast<float>(1 - weight);
    map(0, 0) = 1;  // query 0 counts for nothing
    return *judge(segment, map).score(Role::first)->sink_rate;
  };
  EXPECT_EQ(sink_rate(0.301), 1);
  EXPECT_EQ(sink_rate(0.299), 0);
}

TEST(RoleScores, AreAbsentWhereNoQueryIsEligible) {
  const Segment segment = SyntheticText::segment({1500, 1501, 1502, 1503}, true);
  const HeadRoles found = judge(segment, sharp_map(5, [](index_t i) { return i; }));
  for (const Role role : {Role::next, Role::duplicate, Role::induction, Role::separator, Role::punctuation,
                          Role::rare_word, Role::long_range, Role::parked}) {
    EXPECT_FALSE(found.score(role)) << role_name(role);
  }
  EXPECT_EQ(found.score(Role::self)->eligible, 4);
  EXPECT_FALSE(found.score(Role::self)->interval);

  const HeadRoles alone = judge(SyntheticText::segment({}, true), sharp_map(1, [](index_t i) { return i; }));
  EXPECT_TRUE(alone.labels.empty());
  EXPECT_FALSE(alone.spread);
  for (const auto& score : alone.scores) EXPECT_FALSE(score);
}

TEST(RoleScores, OfUniformAttentionAreZero) {
  test::Random random(test::run_seed());
  const SyntheticText text(2, 2, 64, false, random);
  const HeadRoles found = roles_of(text, false, [](const Segment& segment) {
    Tensor<float, 2> map({segment.num_tokens(), segment.num_tokens()});
    std::fill_n(map.data(), map.size(), 1 / static_cast<float>(segment.num_tokens()));
    return map;
  });
  for (int n = 0; n < kNumRoles; ++n) {
    const auto role = static_cast<Role>(n);
    if (role == Role::broad || role == Role::rare_word || role == Role::parked) continue;  // rare words: of hits
    ASSERT_TRUE(found.score(role)) << role_name(role);
    EXPECT_NEAR(found.score(role)->lift, 0, 1e-6) << role_name(role);
  }
  EXPECT_EQ(found.labels, std::vector{Role::broad});
}

TEST(RoleScores, WhenActiveLeaveParkedQueriesOut) {
  const Segment segment = repeated_segment(40, 1);
  // Half of the queries look back, the others park; those that look back leave a quarter on the sink.
  Tensor<float, 2> map({41, 41});
  map(0, 0) = 1;
  for (index_t i = 1; i < 41; ++i) {
    if (i % 2 == 0) map(i, i - 1) = 0.75f, map(i, 0) = 0.25f;
    if (i % 2 == 1) map(i, 0) = 1;
  }
  const RoleScore score = *judge(segment, map).score(Role::previous);
  EXPECT_EQ(score.eligible, 40);
  EXPECT_NEAR(score.mass, (20 * 0.75 + 1) / 40, 1e-6) << "query 1 has the sink before it";
  ASSERT_TRUE(score.active);
  EXPECT_NEAR(score.active->lift, 1, 1e-6);
  EXPECT_EQ(score.active->hit, 1);
  EXPECT_NEAR(score.active->queries_left, 0.5, 1e-6);
}

TEST(RoleScores, SeeOnlyWhatTheWindowShows) {
  const Segment segment = repeated_segment(40, 1);
  const Tensor<float, 2> map = sharp_map(41, [](index_t i) { return i - 1; });
  const HeadRoles found = judge(segment, map, {.window_left = 2, .window_right = 1});
  EXPECT_EQ(found.score(Role::next)->eligible, 39);
  EXPECT_EQ(found.score(Role::first)->eligible, 2) << "the first key leaves the window after query 2";
  EXPECT_EQ(found.score(Role::offset)->offset, std::optional<index_t>(-2));
  EXPECT_FALSE(found.score(Role::long_range));
  EXPECT_FALSE(found.score(Role::local)) << "all that is seen is near";
  EXPECT_EQ(found.labels.front(), Role::previous);
}

/// Parked needs all three: the sink, its small values, and little output.
TEST(RoleScores, ParkOnlyWhatWritesNothing) {
  const Segment segment = repeated_segment(40, 1);
  Tensor<float, 2> map({41, 41});
  for (index_t i = 0; i < 41; ++i) map(i, 0) += 0.6f, map(i, i) += 0.4f;
  const auto parked = [&](double sink_value, double output) {
    std::vector<double> values(41, 1.0);
    values[0] = sink_value;
    RoleSums sums;
    sums.add(RoleTargets(segment, any_frequencies(), {.causal = true}),
             {.probs = map, .value_norms = values, .output_norms = std::vector<double>(41, output)});
    return judge_roles({.text = &sums, .layer_output_norm = 1.0}).has(Role::parked);
  };
  // share of the sink by value: 0.6 v / (0.6 v + 0.4); a half of 0.6 at v = 0.2857
  EXPECT_TRUE(parked(0.28, 0.25));
  EXPECT_FALSE(parked(0.29, 0.25));
  EXPECT_FALSE(parked(0.28, 0.26));
}

TEST(RoleScores, HaveIntervalsThatHoldTheTruth) {
  test::Random random(test::run_seed());
  const SyntheticText text(12, 2, 32, true, random);
  int holds = 0;
  for (int round = 0; round < 40; ++round) {
    RoleSums sums;
    for (const Segment& segment : text.text) {  // each segment looks back with a chance of its own, 0.5 on average
      const double share = random.uniform(0, 1);
      const Tensor<float, 2> map =
          sharp_map(segment.num_tokens(), [&](index_t i) { return random.chance(share) ? i - 1 : index_t{0}; });
      sums.add(RoleTargets(segment, text.frequencies, {.causal = true}), {.probs = map});
    }
    const Resamples resamples(12, random.bits());
    const RoleScore score = *judge_roles({.text = &sums, .text_resamples = &resamples}).score(Role::previous);
    ASSERT_TRUE(score.interval);
    EXPECT_LT(score.interval->low, score.lift);
    EXPECT_GT(score.interval->high, score.lift);
    const double chance = score.chance;
    const double truth = (0.5 + 0.5 / 31 - chance) / (1 - chance);  // query 1 always
    holds += score.interval->low <= truth && truth <= score.interval->high ? 1 : 0;
  }
  EXPECT_GE(holds, 30) << "of 40, 38 expected";
}

TEST(RoleScores, AddSegmentsWithoutMoreMemory) {
  BlockSums sums;
  for (index_t n = 0; n < 1000; ++n) sums.add(n, {.mass = 1, .chance = 0, .count = 2});
  EXPECT_EQ(sums.blocks().size(), 64u);
  EXPECT_NEAR(Resamples(1000, 1).lift_interval(sums)->low, 0.5, 1e-12);
}

TEST(RoleTargets, RefuseWhatDoesNotFit) {
  const Segment segment = SyntheticText::segment({1, 2}, true);
  EXPECT_EQ(test::error_of([&] {
              RoleTargets(segment, rank_tokens({1, 2}));
            }),
            "RoleTargets: an id must have a frequency, got id=2000, frequencies=2");
  EXPECT_EQ(test::error_of([&] { RoleTargets(segment, any_frequencies(), {.window_left = -1}); }),
            "RoleTargets: a window must not be negative, got window_left=-1, window_right=0");
  Segment short_list = SyntheticText::segment({1, 2}, true);
  short_list.special.pop_back();
  EXPECT_EQ(test::error_of([&] { RoleTargets(short_list, any_frequencies()); }),
            "RoleTargets: a segment's lists must have one length, got ids=3, tokens=3, special=2");
  RoleSums sums;
  const RoleTargets targets(segment, any_frequencies());
  const Tensor<float, 2> map({3, 4}), square({3, 3});
  EXPECT_EQ(test::error_of([&] { sums.add(targets, {.probs = map}); }),
            "RoleSums::add: probs must have a query and a key for each token, got queries=3, keys=4, tokens=3");
  const std::vector<double> norms(2);
  EXPECT_EQ(test::error_of([&] { sums.add(targets, {.probs = square, .value_norms = norms}); }),
            "RoleSums::add: norms must have one entry for each token, got value_norms=2, output_norms=0, tokens=3");
}

TEST(NullModel, HasTheSameNumbersInAnotherOrder) {
  const Encoder encoder = small_encoder(40);
  const Encoder other = shuffled_encoder(encoder, 5), again = shuffled_encoder(encoder, 5);
  const auto parameters = [](const Encoder& from) {
    std::vector<std::vector<float>> all;
    for_each_parameter(naming_schemes().front(), from, [&](const std::string&, const auto& tensor) {
      all.emplace_back(tensor.data(), tensor.data() + tensor.size());
    });
    return all;
  };
  std::vector<std::vector<float>> ours = parameters(encoder), theirs = parameters(other);
  EXPECT_EQ(theirs, parameters(again));
  for (std::size_t n = 0; n < ours.size(); ++n) {
    EXPECT_NE(ours[n], theirs[n]);
    std::ranges::sort(ours[n]), std::ranges::sort(theirs[n]);
    EXPECT_EQ(ours[n], theirs[n]);
  }
}

}  // namespace
}  // namespace multihead::lens
