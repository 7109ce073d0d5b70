// Runs a test program on one instruction set: MULTIHEAD_TEST_TARGET=AVX2, SSE4, SCALAR, ...
#pragma once

#include <gtest/gtest.h>

namespace multihead::test {

/// Forces MULTIHEAD_TEST_TARGET, if set, before the first test. Ends the program with status 77, "skipped", where the
/// machine cannot run it, and fails if another target runs all the same.
class TargetEnvironment : public testing::Environment {
  void SetUp() override;
};

}  // namespace multihead::test
