// What the subcommands share: the table of them, usage errors, flags.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace multihead::cli {

/// One row of the table in main.cpp; `run` returns the exit code. argv[0] is the subcommand's name.
struct Command {
  const char* name;
  const char* summary;
  int (*run)(int argc, char** argv);
};

/// What a person typed does not fit: exit code 2. Any other exception: exit code 1.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

int run_explain(int argc, char** argv);
int run_inspect(int argc, char** argv);
int run_onnx(int argc, char** argv);

/// What --version prints: the version, which instruction set runs of those that could, and how many threads.
/// @throws UnsupportedError  if MULTIHEAD_INSTRUCTION_SET names none that could
std::string version_text();

/// Parses the flags of a subcommand. False: its help was asked for and has been printed.
/// @throws UsageError  in CLI11's words, with the way to --help
bool parse(CLI::App& app, int argc, char** argv);

/// The candidate that is fewest edits away, or "" when none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace multihead::cli
