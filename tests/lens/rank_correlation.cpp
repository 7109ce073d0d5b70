#include "multihead/lens/rank_correlation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/error_text.hpp"

namespace multihead::lens {
namespace {

using Values = std::vector<double>;

TEST(RankCorrelation, IsOfTheOrderAlone) {
  const Values x = {3, 1, 4, 1.5, 9};
  EXPECT_DOUBLE_EQ(*rank_correlation(x, Values{30, 1, 400, 2, 401}), 1);
  EXPECT_DOUBLE_EQ(*rank_correlation(x, Values{-30, -1, -400, -2, -401}), -1);
  // d = (0, 0, -1, 0, 1): 1 - 6 * 2 / (5 * 24)
  EXPECT_DOUBLE_EQ(*rank_correlation(x, Values{3, 1, 9, 1.5, 4}), 0.9);
}

TEST(RankCorrelation, EqualValuesShareTheirRank) {
  // ranks 0.5 0.5 2 3 and 0 1 2 3 about 1.5: 4.5 / sqrt(4.5 * 5)
  EXPECT_DOUBLE_EQ(*rank_correlation(Values{7, 7, 8, 9}, Values{1, 2, 3, 4}), 4.5 / std::sqrt(4.5 * 5));
}

TEST(RankCorrelation, IsAbsentWhereNothingIsRanked) {
  EXPECT_FALSE(rank_correlation(Values{}, Values{}));
  EXPECT_FALSE(rank_correlation(Values{1}, Values{2}));
  EXPECT_FALSE(rank_correlation(Values{1, 1}, Values{1, 2}));
  EXPECT_EQ(test::error_of([] { rank_correlation(Values{1}, Values{}); }),
            "rank_correlation: both must have as many values, got a=1, b=0");
}

TEST(TopOverlap, CountsWhatBothHaveOnTop) {
  const Values x = {5, 1, 4, 2, 3};
  EXPECT_DOUBLE_EQ(*top_overlap(x, Values{50, 9, 8, 7, 6}, 0.4), 0.5);  // {0, 2} and {0, 1}
  EXPECT_DOUBLE_EQ(*top_overlap(x, x, 0.4), 1);
  EXPECT_DOUBLE_EQ(*top_overlap(x, Values{0, 9, 0, 9, 0}, 0.01), 0);
  EXPECT_DOUBLE_EQ(*top_overlap(Values{1, 1, 1}, Values{3, 2, 1}, 0.34), 1);  // of equals the first
  EXPECT_FALSE(top_overlap(Values{}, Values{}, 0.5));
  EXPECT_EQ(test::error_of([] { top_overlap(Values{1}, Values{1}, 0); }),
            "top_overlap: share must be in (0, 1], got share=0");
}

}  // namespace
}  // namespace multihead::lens
