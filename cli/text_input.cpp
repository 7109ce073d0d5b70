// The text that a command works on: where it may come from.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "command.hpp"
#include "files.hpp"
#include "model_run.hpp"

namespace multihead::cli {

void add_text_source(CLI::App& app, TextSource& source, const std::string& description) {
  app.add_option("TEXT", source.text, description)->type_name("");
  app.add_option("--file", source.file, "read the text from a file, \"-\" for standard input")->type_name("FILE");
}

std::string text_input(const TextSource& source) {
  if (source.file && source.text) throw UsageError("give the text or --file, not both");
  std::string given;
  std::string rule = "the text must not be empty; give it as TEXT or with --file";
  if (source.file) {
    given = read_file(*source.file);
    rule = *source.file == kStandardInput ? rule : fmt::format("the text in \"{}\" must not be empty", *source.file);
  } else if (source.text && *source.text != kStandardInput) {
    given = *source.text;
  } else if (source.text || !::isatty(STDIN_FILENO)) {
    given = read_file(kStandardInput);
  }
  if (given.find_first_not_of(" \t\r\n") == std::string::npos) throw UsageError(rule);
  return given;
}

}  // namespace multihead::cli
