// Which instruction set runs can be seen and chosen, by a call and by an environment variable.
#include "multihead/instruction_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <thread>

#include "kernels/elementwise.hpp"
#include "kernels/kernels.hpp"
#include "multihead/matmul.hpp"
#include "tests/support/error_text.hpp"

namespace multihead {
namespace {

using test::error_of;

std::string known() {
  std::string list;
  for (const std::string& name : instruction_sets()) list += (list.empty() ? "" : ", ") + name;
  return list;
}

class InstructionSet : public testing::Test {
  void TearDown() override { set_instruction_set(instruction_sets().front()); }
};

TEST_F(InstructionSet, TheBestRunsUnlessAnotherIsChosen) {
  const std::vector<std::string> names = instruction_sets();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(instruction_set(), names.front());
  for (const char* const left_out : {"SSSE3", "SVE", "SVE2", "SVE_256", "SVE2_128", "RVV"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), left_out), 0) << left_out;
  }
  for (const std::string& name : names) {
    set_instruction_set(name);
    EXPECT_EQ(instruction_set(), name);
    EXPECT_EQ("N_" + name, kernels::table<float>().target);
    EXPECT_EQ("N_" + name, kernels::table<double>().target);
  }
  std::string lower = names.back();
  for (char& c : lower) c = static_cast<char>(std::tolower(c));
  set_instruction_set(names.front());
  set_instruction_set(lower);
  EXPECT_EQ(instruction_set(), names.back());
}

TEST_F(InstructionSet, EachHasElementwiseFunctionsOfItsOwn) {
  std::vector<const kernels::ElementwiseTable*> tables;
  for (const std::string& name : instruction_sets()) {
    set_instruction_set(name);
    EXPECT_EQ(std::count(tables.begin(), tables.end(), &kernels::elementwise()), 0) << name;
    tables.push_back(&kernels::elementwise());
  }
}

TEST_F(InstructionSet, AnUnknownNameIsRefusedAndChangesNothing) {
  const std::string last = instruction_sets().back();
  set_instruction_set(last);
  for (const char* const name : {"", "AVX9", "AVX2 ", "N_AVX2"}) {
    EXPECT_EQ(error_of<UnsupportedError>([&] { set_instruction_set(name); }),
              "set_instruction_set: name must be an instruction set that can run here, got name=" + std::string(name) +
                  "; known: " + known());
    EXPECT_EQ(instruction_set(), last);
  }
}

// A call that has begun ends on what it began with: products with packed matrices depend on the width of vectors.
TEST_F(InstructionSet, MayChangeWhileOthersCompute) {
  const Tensor<float, 2> a({40, 30}), b({50, 30});
  const PackedMatrix<float> packed(b);
  std::atomic<bool> done{false};
  std::thread changer([&] {
    const std::vector<std::string> names = instruction_sets();
    for (std::size_t n = 0; n < 20000; ++n) set_instruction_set(names[n % names.size()]);
    done = true;
  });
  Tensor<float, 2> c({40, 50});
  while (!done) {
    std::fill_n(c.data(), c.size(), 1.0f);
    matmul(a, b, c, {.packed = &packed});
    ASSERT_EQ(std::count(c.data(), c.data() + c.size(), 0.0f), c.size());
  }
  changer.join();
}

// The variable is read when the first kernel is needed: in a process of its own.
class InstructionSetDeathTest : public InstructionSet {
 protected:
  InstructionSetDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  /// Prints what runs, or why nothing does, and ends the process.
  [[noreturn]] static void say_with(const char* variable) {
    setenv("MULTIHEAD_INSTRUCTION_SET", variable, 1);
    for (int time = 0; time < 2; ++time) {
      try {
        const Tensor<float, 2> a({1, 1});
        Tensor<float, 2> c({1, 1});
        matmul(a, a, c);
        std::fprintf(stderr, "<%s>", instruction_set().c_str());
      } catch (const UnsupportedError& error) {
        std::fprintf(stderr, "<%s>", error.what());
      }
    }
    std::exit(0);
  }
};

TEST_F(InstructionSetDeathTest, TheVariableChooses) {
  for (const std::string& name : instruction_sets()) {
    EXPECT_EXIT(say_with(name.c_str()), testing::ExitedWithCode(0), "<" + name + "><" + name + ">");
  }
  EXPECT_EXIT(say_with(""), testing::ExitedWithCode(0), "<" + instruction_sets().front() + ">");
}

TEST_F(InstructionSetDeathTest, AWrongVariableIsAnErrorEachTimeUntilOneIsChosen) {
  const std::string text =
      "<instruction_set: MULTIHEAD_INSTRUCTION_SET must be an instruction set that can run here, "
      "got MULTIHEAD_INSTRUCTION_SET=quick; known: " +
      known() + ">";
  EXPECT_EXIT(say_with("quick"), testing::ExitedWithCode(0), text + text);
  EXPECT_EXIT(
      {
        setenv("MULTIHEAD_INSTRUCTION_SET", "quick", 1);
        set_instruction_set(instruction_sets().back());
        std::fprintf(stderr, "<%s>", instruction_set().c_str());
        std::exit(0);
      },
      testing::ExitedWithCode(0), "<" + instruction_sets().back() + ">");
}

}  // namespace
}  // namespace multihead
