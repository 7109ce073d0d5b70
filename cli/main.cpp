// multihead: picks the subcommand, turns exceptions into one line on stderr and an exit code.
//   0 done, 2 the command line does not fit, 1 anything else
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <vector>

#include "command.hpp"

namespace multihead::cli {
namespace {

constexpr Command kCommands[] = {
    {"inspect", "run a model on a text: a table of its heads, a drawing, an interactive page", run_inspect},
    {"explain", "the six steps of multi-head attention on a text, with every shape and number", run_explain},
    {"onnx", "run conformance cases of the ONNX operators Attention and RotaryEmbedding", run_onnx},
};

std::string help() {
  std::string text = "Exact, fast, inspectable multi-head attention.\n\nUsage: multihead COMMAND [OPTIONS]\n\n";
  for (const Command& command : kCommands) text += fmt::format("  {:<10} {}\n", command.name, command.summary);
  return text + "\nmultihead COMMAND --help tells more, with an example. multihead --version\n";
}

[[noreturn]] void throw_unknown(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string_view near = nearest(name, names);
  const std::string guess = near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near);
  throw UsageError(fmt::format("unknown command \"{}\"{} (multihead --help lists them)", name, guess));
}

int run(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--help" || first == "-h" || first == "help") return std::fputs(help().c_str(), stdout), 0;
  if (first == "--version") return std::fputs(version_text().c_str(), stdout), 0;
  if (first.empty()) throw UsageError("a command is needed (multihead --help lists them)");
  const auto* command =
      std::find_if(std::begin(kCommands), std::end(kCommands), [&](const Command& each) { return first == each.name; });
  if (command == std::end(kCommands)) throw_unknown(first);
  try {
    return command->run(argc - 1, argv + 1);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", command->name, error.what()));
  }
}

}  // namespace
}  // namespace multihead::cli

int main(int argc, char** argv) {
  try {
    return multihead::cli::run(argc, argv);
  } catch (const multihead::cli::UsageError& error) {
    fmt::print(stderr, "multihead: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "multihead: {}\n", error.what());
    return 1;
  }
}
