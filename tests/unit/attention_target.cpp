// MULTIHEAD_TEST_TARGET chooses the instruction set of this program's kernels.
#include "tests/support/target.hpp"

namespace multihead::test {
namespace {

const testing::Environment* const environment = testing::AddGlobalTestEnvironment(new TargetEnvironment);

}  // namespace
}  // namespace multihead::test
