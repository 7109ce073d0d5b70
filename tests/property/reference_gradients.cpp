// The reference's gradients are those of its forward: central differences, option by option and all at once.
#include <gtest/gtest.h>

#include "tests/support/central_differences.hpp"
#include "tests/support/gradient_configs.hpp"

namespace multihead::test {
namespace {

class ReferenceGradients : public testing::TestWithParam<NamedConfig> {};

TEST_P(ReferenceGradients, AreCentralDifferences) {
  expect_central_differences(reference_engine<double>(), GetParam().config, run_seed());
}

INSTANTIATE_TEST_SUITE_P(, ReferenceGradients, testing::ValuesIn(gradient_configs()), config_name);

}  // namespace
}  // namespace multihead::test
