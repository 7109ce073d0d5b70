#include "multihead/onnx/case.hpp"

#include <algorithm>
#include <cmath>

#include "core/file_error.hpp"
#include "multihead/onnx/model.hpp"
#include "onnx/convert.hpp"

namespace multihead {
namespace {

namespace fs = std::filesystem;

// input_0.pb, input_1.pb, .. as far as they go.
std::vector<OnnxTensor> load_numbered(const fs::path& folder, const std::string& stem) {
  std::vector<OnnxTensor> tensors;
  for (index_t n = 0;; ++n) {
    const fs::path path = folder / (stem + std::to_string(n) + ".pb");
    if (!fs::exists(path)) return tensors;
    tensors.push_back(load_onnx_tensor(path).tensor);
  }
}

std::vector<double> values_of(const OnnxTensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.size()));
  visit_onnx_type(tensor.type(), [&](auto element) {
    using T = decltype(element);
    std::transform(tensor.data<T>(), tensor.data<T>() + tensor.size(), values.begin(),
                   [](T value) { return compute_value<double>(value); });
  });
  return values;
}

// |got - want| in units of the tolerance.
double element_error(double got, double want, const OnnxTolerance& tolerance) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return 0.0;
  const double error = std::abs(got - want) / (tolerance.absolute + tolerance.relative * std::abs(want));
  return std::isnan(error) ? INFINITY : error;
}

void compare(const OnnxTensor& got, const OnnxTensor& want, const std::string& name, const OnnxTolerance& tolerance,
             OnnxCaseResult& result) {
  require<Error>(got.type() == want.type() && got.shape() == want.shape(), "run_onnx_case",
                 "an output must have the expected type and shape",
                 {{"output", quote(name)},
                  {"type", onnx_type_name(got.type())},
                  {"shape", shape_text(got.shape())},
                  {"expected_type", onnx_type_name(want.type())},
                  {"expected_shape", shape_text(want.shape())}});
  const std::vector<double> x = values_of(got), y = values_of(want);
  index_t differ = 0;
  std::size_t worst = 0;
  double largest = 0.0;
  for (std::size_t n = 0; n < x.size(); ++n) {
    const double error = element_error(x[n], y[n], tolerance);
    differ += !(error <= 1.0);
    if (error > largest) {
      largest = error;
      worst = n;
    }
  }
  result.error = std::max(result.error, largest);
  if (differ > 0) {
    throw Error(error_text("run_onnx_case", "outputs must agree within the tolerance",
                           {{"output", quote(name)},
                            {"differing", differ},
                            {"elements", x.size()},
                            {"worst_index", worst},
                            {"value", x[worst]},
                            {"expected", y[worst]}}));
  }
}

void run_data_set(const OnnxGraph& graph, const fs::path& folder, const OnnxTolerance& tolerance, Executor* threads,
                  OnnxCaseResult& result) {
  const std::vector<OnnxTensor> inputs = load_numbered(folder, "input_"), want = load_numbered(folder, "output_");
  const std::vector<OnnxTensor> got =
      run_onnx_graph(graph, std::vector<OnnxView>(inputs.begin(), inputs.end()), threads);
  require_file(want.size() == got.size() && !want.empty(), folder, "run_onnx_case",
               "there must be one output_<k>.pb for each graph output",
               {{"files", want.size()}, {"graph_outputs", got.size()}});
  for (std::size_t n = 0; n < got.size(); ++n) compare(got[n], want[n], graph.outputs[n], tolerance, result);
}

}  // namespace

OnnxCaseResult run_onnx_case(const fs::path& folder, const OnnxTolerance& tolerance, Executor* threads) {
  OnnxCaseResult result;
  try {
    const OnnxGraph graph = load_onnx_graph(folder / "model.onnx");
    index_t data_sets = 0;
    for (fs::path set; set = folder / ("test_data_set_" + std::to_string(data_sets)), fs::is_directory(set);
         ++data_sets) {
      run_data_set(graph, set, tolerance, threads, result);
    }
    require_file(data_sets > 0, folder, "run_onnx_case", "a case must have a folder test_data_set_0");
    result.passed = true;
  } catch (const std::exception& error) {
    result.text = error.what();
  }
  return result;
}

std::vector<fs::path> find_onnx_cases(const fs::path& folder) {
  if (fs::exists(folder / "model.onnx")) return {folder};
  std::vector<fs::path> cases;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    if (fs::exists(entry.path() / "model.onnx", failure)) cases.push_back(entry.path());
  }
  std::sort(cases.begin(), cases.end());
  require_file(!cases.empty(), folder, "find_onnx_cases", "a folder must hold a model.onnx or subfolders that do");
  return cases;
}

}  // namespace multihead
