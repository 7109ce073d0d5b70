#include "tests/support/target.hpp"

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "hwy/targets.h"
#include "kernels/kernels.hpp"

namespace multihead::test {
namespace {

/// Every bit that stands for a target, best first.
std::vector<std::int64_t> all_bits() {
  std::vector<std::int64_t> bits;
  for (int bit = 0; bit < 63; ++bit) bits.push_back(std::int64_t{1} << bit);
  return bits;
}

/// As in the names of kernels: "AVX2", "SCALAR".
std::string name_of(std::int64_t bit) {
  std::string name = hwy::TargetName(bit);
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

void run_on(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

std::string running_target() {
  const std::string name = kernels::table<float>().target;  // as "N_AVX2"
  return name.substr(name.find('_') + 1);
}

bool force_target(const std::string& name) {
  run_on(0);  // what the machine can do
  const std::int64_t supported = hwy::SupportedTargets();
  for (std::int64_t bit : all_bits()) {
    if ((supported & bit) == 0 || name != name_of(bit)) continue;
    run_on(bit);
    return running_target() == name;  // not so where it was not compiled in
  }
  return false;
}

std::vector<std::string> runnable_targets() {
  std::vector<std::string> names;
  for (std::int64_t bit : all_bits()) {
    const std::string name = name_of(bit);
    if (force_target(name)) names.push_back(name);
  }
  run_on(0);
  return names;
}

void TargetEnvironment::SetUp() {
  const char* const wanted = std::getenv("MULTIHEAD_TEST_TARGET");
  if (wanted == nullptr) return;
  if (!force_target(wanted)) {
    std::printf("this machine or build does not run %s\n", wanted);
    std::exit(77);
  }
  ASSERT_EQ(running_target(), wanted);
}

}  // namespace multihead::test
