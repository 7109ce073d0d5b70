// multihead: picks the subcommand, turns exceptions into one line on stderr and an exit code.
//   0 done, 2 the command line does not fit, 1 anything else
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <vector>

#include "command.hpp"
#include "files.hpp"
#include "process.hpp"

namespace multihead::cli {
namespace {

constexpr Command kCommands[] = {
    {"inspect", "run a model on a text: a table of its heads, a drawing, an interactive page", run_inspect},
    {"serve", "the same page live: type a text, see the maps at once", run_serve},
    {"heads", "which role each head of a model has: previous token, first token, induction, ...", run_heads},
    {"prune", "a smaller model without the heads that it can best do without", run_prune},
    {"explain", "the six steps of multi-head attention on a text, with every shape and number", run_explain},
    {"onnx", "run conformance cases of the ONNX operators Attention and RotaryEmbedding", run_onnx},
};

void print_help() {
  std::string text = "Exact, fast, inspectable multi-head attention.\n\nUsage: multihead COMMAND [OPTIONS]\n\n";
  for (const Command& command : kCommands) text += fmt::format("  {:<10} {}\n", command.name, command.summary);
  print(text +
        "\nmultihead COMMAND --help tells more, with an example. multihead --version\n"
        "Example: multihead explain \"the cat sat\"\n");
}

const Command& find_command(std::string_view name) {
  const auto* command =
      std::find_if(std::begin(kCommands), std::end(kCommands), [&](const Command& each) { return name == each.name; });
  if (command != std::end(kCommands)) return *command;
  std::vector<std::string> names;
  for (const Command& each : kCommands) names.emplace_back(each.name);
  throw UsageError(fmt::format("unknown command \"{}\"{} (multihead --help lists them)", name, guess_of(name, names)));
}

int run_command(const Command& command, int argc, char** argv) {
  try {
    return command.run(argc, argv);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", command.name, error.what()));
  }
}

int run(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first.empty()) throw UsageError("a command is needed (multihead --help lists them)");
  if (first == "--version" || first == "-V") return print(version_text()), 0;
  if (first == "--help" || first == "-h" || first == "help") {
    if (argc == 2) return print_help(), 0;
    char help_flag[] = "--help";
    char* help[] = {argv[2], help_flag, nullptr};
    return run_command(find_command(argv[2]), 2, help);
  }
  return run_command(find_command(first), argc - 1, argv + 1);
}

}  // namespace
}  // namespace multihead::cli

int main(int argc, char** argv) {
  using namespace multihead::cli;
  const auto fail = [](const std::string& text, int code) { return print_error("multihead: " + text), code; };
  prepare_process();
  try {
    const int code = run(argc, argv);
    close_standard_output();
    return code;
  } catch (const UsageError& error) {
    return fail(error.what(), 2);
  } catch (const multihead::WriteError& error) {
    return fail(text_of(error), 1);
  } catch (const std::bad_alloc&) {
    return fail("not enough memory", 1);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}
