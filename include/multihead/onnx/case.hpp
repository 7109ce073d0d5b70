// Conformance cases in the form of the ONNX project: a folder with model.onnx and test_data_set_<n>/, which holds
// input_<k>.pb for each graph input and output_<k>.pb for each graph output.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "multihead/threads.hpp"

namespace multihead {

/// An output agrees with the expected one if types and shapes are equal and every element has
///   |got - expected| <= absolute + relative * |expected|       NaN agrees with NaN, an infinity with itself
/// The values are those of the ONNX project's own test runner, for all element types.
struct OnnxTolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

struct OnnxCaseResult {
  bool passed = false;
  double error = 0.0;  ///< the largest |got - expected| / (absolute + relative * |expected|); at most 1 if passed
  std::string text;    ///< why it failed; empty if passed
};

/// Runs all data sets of the case. What the model or its files throw becomes a failed result with the error's text.
MULTIHEAD_API OnnxCaseResult run_onnx_case(const std::filesystem::path& folder, const OnnxTolerance& tolerance = {},
                                           Executor* threads = nullptr);

/// `folder` if it holds a model.onnx, else its subfolders that do, by name.
/// @throws CheckpointError  if there is none
MULTIHEAD_API std::vector<std::filesystem::path> find_onnx_cases(const std::filesystem::path& folder);

}  // namespace multihead
