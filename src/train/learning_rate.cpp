#include "multihead/train/learning_rate.hpp"

#include <algorithm>
#include <cmath>

#include "core/require.hpp"

namespace multihead::train {

double learning_rate(const LearningRate& schedule, index_t step) {
  const char* function = "learning_rate";
  require(step >= 1, function, "step must be at least 1", {{"step", step}});
  require(schedule.peak > 0 && std::isfinite(schedule.peak), function, "peak must be finite and above 0",
          {{"peak", schedule.peak}});
  require(schedule.warmup >= 1, function, "warmup must be at least 1", {{"warmup", schedule.warmup}});
  const auto rise_and_fall = [&](index_t t) {
    const double at = static_cast<double>(t), warmup = static_cast<double>(schedule.warmup);
    return schedule.peak * std::min(at / warmup, std::sqrt(warmup / at));
  };
  if (!schedule.tail) return rise_and_fall(step);
  const auto [begin, end] = *schedule.tail;
  require(begin >= 1 && end > begin, function, "the tail must begin at step 1 or later and end after it begins",
          {{"begin", begin}, {"end", end}});
  if (step <= begin) return rise_and_fall(step);
  if (step > end) return 0;
  return rise_and_fall(begin) * (static_cast<double>(end - step) + 1) / (static_cast<double>(end - begin) + 1);
}

}  // namespace multihead::train
