// Every case of the ONNX project that is kept here, one test a case.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "multihead/onnx/case.hpp"

namespace multihead {
namespace {

std::vector<std::filesystem::path> cases() {
  return find_onnx_cases(std::filesystem::path(MULTIHEAD_SOURCE_DIR) / "tests/conformance/onnx_attention");
}

class OnnxCase : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(OnnxCase, Passes) {
  const OnnxCaseResult result = run_onnx_case(GetParam());
  EXPECT_TRUE(result.passed) << result.text;
}

INSTANTIATE_TEST_SUITE_P(Onnx, OnnxCase, testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.filename().string(); });

TEST(OnnxCases, AreAllThere) {
  const auto all = cases();
  const auto rotary = std::count_if(all.begin(), all.end(), [](const std::filesystem::path& folder) {
    return folder.filename().string().starts_with("test_rotary_embedding");
  });
  EXPECT_EQ(rotary, 8);
  EXPECT_EQ(all.size() - static_cast<std::size_t>(rotary), 76u);
}

}  // namespace
}  // namespace multihead
