// The core's gradients are those of its own forward: central differences through it in f64.
#include <gtest/gtest.h>

#include "tests/support/central_differences.hpp"
#include "tests/support/gradient_configs.hpp"

namespace multihead::test {
namespace {

class AttentionGradientsOf : public testing::TestWithParam<NamedConfig> {};

TEST_P(AttentionGradientsOf, AreCentralDifferences) {
  expect_central_differences(core_engine(), GetParam().config, run_seed());
}

INSTANTIATE_TEST_SUITE_P(, AttentionGradientsOf, testing::ValuesIn(gradient_configs()), config_name);

}  // namespace
}  // namespace multihead::test
