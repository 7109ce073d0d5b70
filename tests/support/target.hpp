// Runs a test program on one instruction set: MULTIHEAD_TEST_TARGET=AVX2, SSE4, SCALAR, ...
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace multihead::test {

/// Names of the targets that were compiled in and that this machine can run, best first.
std::vector<std::string> runnable_targets();

/// From now on the kernels run on this target.
/// @return  false if the machine cannot
bool force_target(const std::string& name);

/// The target whose kernels a call would run now.
std::string running_target();

/// Forces MULTIHEAD_TEST_TARGET, if set, before the first test. Ends the program with status 77, "skipped", where the
/// machine cannot run it, and fails if another target runs all the same.
class TargetEnvironment : public testing::Environment {
  void SetUp() override;
};

}  // namespace multihead::test
