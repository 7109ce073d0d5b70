// What the subcommands share: the table of them, usage errors, flags.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <concepts>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "multihead/types.hpp"

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
int run_heads(int argc, char** argv);
int run_inspect(int argc, char** argv);
int run_onnx(int argc, char** argv);
int run_prune(int argc, char** argv);
int run_serve(int argc, char** argv);

/// What --version prints: the version, which instruction set runs of those that could, and how many threads.
/// @throws UnsupportedError  if MULTIHEAD_INSTRUCTION_SET names none that could
std::string version_text();

/// Parses the flags of a subcommand. False: its help was asked for and has been printed.
/// @throws UsageError  with the way to --help
bool parse(CLI::App& app, int argc, char** argv);

/// Digits only, or a UsageError with the rule: "--threads must be a whole number in [0, 4096], got "1e3"".
std::uint64_t whole_number(std::string_view flag, std::string_view text, std::uint64_t lowest, std::uint64_t most);

/// A plain decimal number, finite and 0 or more, or a UsageError.
double nonnegative_number(std::string_view flag, std::string_view text);

/// Which of the names was given, or a UsageError: "--method must be none, mean, scale or fold, got "best"".
std::size_t one_of(std::string_view flag, std::span<const std::string_view> names, std::string_view given);

/// The largest index that a flag takes, where only a model knows how many there are.
constexpr index_t kMostIndex = std::numeric_limits<std::int32_t>::max();

/// A flag with a whole number in [lowest, most], into an integer or an optional one.
template <class Number>
CLI::Option* add_whole_number(CLI::App& app, const std::string& flag, Number& target, std::uint64_t lowest,
                              std::uint64_t most, const std::string& description) {
  const auto read = [&target, flag, lowest, most](const std::string& text) {
    using Value = std::remove_cvref_t<decltype(std::optional(target).value())>;
    target = static_cast<Value>(whole_number(flag, text, lowest, most));
  };
  return app.add_option_function<std::string>(flag, read, description)->type_name("N");
}

/// The candidate that is fewest edits away, or "" when none is near. Case, leading dashes, and "_" for "-" are free.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// "; did you mean "inspect"?", or nothing.
std::string guess_of(std::string_view word, std::span<const std::string> candidates);

}  // namespace multihead::cli
