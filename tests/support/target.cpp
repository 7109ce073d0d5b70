#include "tests/support/target.hpp"

#include <cstdio>
#include <cstdlib>

#include "multihead/error.hpp"
#include "multihead/instruction_set.hpp"

namespace multihead::test {

void TargetEnvironment::SetUp() {
  const char* const wanted = std::getenv("MULTIHEAD_TEST_TARGET");
  if (wanted == nullptr) return;
  try {
    set_instruction_set(wanted);
  } catch (const UnsupportedError& error) {
    std::printf("skipped: %s\n", error.what());
    std::exit(77);
  }
  ASSERT_EQ(instruction_set(), wanted);
}

}  // namespace multihead::test
