// The learning rate at the steps where it is easily one step off.
#include "multihead/train/learning_rate.hpp"

#include <gtest/gtest.h>

#include "support/error_text.hpp"

namespace multihead::test {
namespace {

using train::learning_rate;
using train::LearningRate;
using train::LinearTail;

TEST(LearningRate, RisesToThePeakAndFallsWithTheInverseRoot) {
  const LearningRate schedule{.peak = 0.004, .warmup = 400, .tail = {}};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1), 0.004 / 400);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 200), 0.002);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 400), 0.004);
  EXPECT_LT(learning_rate(schedule, 401), 0.004);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1600), 0.002);
}

TEST(LearningRate, FallsInALineWhereThereIsATail) {
  const LearningRate plain{.peak = 1.0, .warmup = 4, .tail = {}};
  const LearningRate schedule{.peak = 1.0, .warmup = 4, .tail = LinearTail{.begin = 16, .end = 19}};
  for (index_t t = 1; t <= 16; ++t) EXPECT_EQ(learning_rate(schedule, t), learning_rate(plain, t)) << t;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 17), 0.5 * 0.75);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 18), 0.5 * 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 19), 0.5 * 0.25);
  EXPECT_EQ(learning_rate(schedule, 20), 0);
  EXPECT_EQ(learning_rate(schedule, 1000), 0);
}

TEST(LearningRate, RefusesWhatIsNoSchedule) {
  const auto error = [](const LearningRate& schedule, index_t step) {
    return error_of([&] { learning_rate(schedule, step); });
  };
  EXPECT_EQ(error({}, 0), "learning_rate: step must be at least 1, got step=0");
  EXPECT_EQ(error({.peak = 0, .warmup = 1, .tail = {}}, 1),
            "learning_rate: peak must be finite and above 0, got peak=0");
  EXPECT_EQ(error({.peak = 1, .warmup = 0, .tail = {}}, 1), "learning_rate: warmup must be at least 1, got warmup=0");
  EXPECT_EQ(error({.peak = 1, .warmup = 1, .tail = LinearTail{.begin = 9, .end = 9}}, 1),
            "learning_rate: the tail must begin at step 1 or later and end after it begins, got begin=9, end=9");
}

}  // namespace
}  // namespace multihead::test
