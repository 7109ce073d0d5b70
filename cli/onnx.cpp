// multihead onnx DIR...: runs conformance cases of the ONNX project, a line a case.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "command.hpp"
#include "multihead/onnx/case.hpp"
#include "multihead/threads.hpp"
#include "process.hpp"
#include "terminal.hpp"

namespace multihead::cli {
namespace {

struct Flags {
  std::vector<std::string> folders;
  OnnxTolerance tolerance;
  int num_threads = 0;
};

constexpr auto kExample =
    "Example:\n"
    "  multihead onnx tests/conformance/onnx_attention\n\n"
    "A folder is a case (it holds model.onnx and test_data_set_0), or holds cases. An output agrees if its type and\n"
    "shape do and |got - expected| <= atol + rtol * |expected| for every element. Exit code 1 if any case fails.";

bool parse_flags(Flags& flags, int argc, char** argv) {
  CLI::App app("Run conformance cases of the ONNX operators Attention and RotaryEmbedding.", "multihead onnx");
  app.add_option("DIR", flags.folders, "case folders, or folders of them")->type_name("")->required();
  const auto add_tolerance = [&](const std::string& flag, double& target, const std::string& description) {
    const auto read = [&target, flag](const std::string& text) { target = nonnegative_number(flag, text); };
    app.add_option_function<std::string>(flag, read, fmt::format("{} [{:g}]", description, target))->type_name("X");
  };
  add_tolerance("--rtol", flags.tolerance.relative, "relative tolerance");
  add_tolerance("--atol", flags.tolerance.absolute, "absolute tolerance");
  add_whole_number(app, "--threads", flags.num_threads, 0, 4096, "0 = one for each CPU [0]");
  app.footer(kExample);
  return parse(app, argc, argv);
}

}  // namespace

int run_onnx(int argc, char** argv) {
  Flags flags;
  if (!parse_flags(flags, argc, argv)) return 0;
  std::vector<std::filesystem::path> cases;
  for (const std::string& folder : flags.folders) {
    const auto found = find_onnx_cases(folder);
    cases.insert(cases.end(), found.begin(), found.end());
  }
  Workers threads(flags.num_threads);
  std::size_t num_passed = 0;
  for (const auto& folder : cases) {
    const OnnxCaseResult result = run_onnx_case(folder, flags.tolerance, threads.get());
    const std::string name =
        std::filesystem::absolute(folder / "").lexically_normal().parent_path().filename().string();
    num_passed += result.passed;
    const std::string outcome = result.passed ? fmt::format("{:.2g} of the tolerance", result.error) : result.text;
    print(fmt::format("{}  {}  {}\n", result.passed ? "pass" : "FAIL", printable(name), printable(outcome)));
  }
  print(fmt::format("{} of {} cases pass, |got - expected| <= {:g} + {:g} * |expected|\n", num_passed, cases.size(),
                    flags.tolerance.absolute, flags.tolerance.relative));
  return num_passed == cases.size() ? 0 : 1;
}

}  // namespace multihead::cli
