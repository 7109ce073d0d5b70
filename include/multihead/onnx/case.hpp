// Conformance cases of the ONNX project: each is a folder with model.onnx and folders test_data_set_<n>/, which hold
// input_<k>.pb for each graph input and output_<k>.pb for each graph output.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "multihead/threads.hpp"

namespace multihead {

/// An output is correct if its type and shape are the expected ones and for every element
///   |got - expected| <= absolute + relative * |expected|       NaN matches NaN, an infinity only itself
/// The default values are those of the test runner of the ONNX project, for all element types.
struct OnnxTolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

struct OnnxCaseResult {
  bool passed = false;
  double error = 0.0;  ///< the largest |got - expected| / (absolute + relative * |expected|); at most 1 if passed
  std::string text;    ///< why it failed; empty if passed
};

/// Runs all data sets of the case. If the model or its files cause an error, the case has failed with its text.
MULTIHEAD_API OnnxCaseResult run_onnx_case(const std::filesystem::path& folder, const OnnxTolerance& tolerance = {},
                                           Executor* threads = nullptr);

/// Returns `folder` if it holds a model.onnx, otherwise its subfolders that do, sorted by name.
/// @throws CheckpointError  if there is none
MULTIHEAD_API std::vector<std::filesystem::path> find_onnx_cases(const std::filesystem::path& folder);

}  // namespace multihead
