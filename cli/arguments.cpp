// The words of a command line, looked at before CLI11 reads them: what does not fit is named with what was meant.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

#include "command.hpp"
#include "process.hpp"

namespace multihead::cli {
namespace {

std::string value_noun(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type == "FILE" ? "a file" : type == "DIR" ? "a folder" : "a number";
}

/// "--html" of "-o,--html,--output".
std::string flag_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name() : "--" + option.get_lnames().front();
}

class Words {
 public:
  Words(const CLI::App& app, int argc, char** argv) : app_(app), name_(argv[0]) {
    for (int n = 1; n < argc; ++n) words_.emplace_back(argv[n]);
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) names_.push_back("--" + name);
    }
  }

  void check() {
    bool only_text = false;
    while (at_ < words_.size()) {
      const std::string& word = words_[at_++];
      if (only_text || word.size() < 2 || word[0] != '-') {
        positionals_.push_back(word);
      } else if (word == "--") {
        only_text = true;
      } else {
        check_option(word);
      }
    }
    check_positionals();
  }

 private:
  void check_option(const std::string& word) {
    const bool is_long = word[1] == '-';
    const std::size_t equals = is_long ? word.find('=') : std::string::npos;
    const std::string name = is_long ? word.substr(0, equals) : word.substr(0, 2);
    const CLI::Option* option = app_.get_option_no_throw(name);
    const bool is_flag = option && option->get_items_expected_max() == 0;
    const bool is_glued = !is_long && word.size() > 2;  // -oFILE
    if (!option || (is_flag && is_glued)) unknown(is_long ? name : word);
    if (is_flag) return;
    if (!seen_.insert(option).second) throw UsageError(flag_name(*option) + " must be given once");
    const std::string noun = value_noun(*option);
    if (equals != std::string::npos || is_glued) {
      if (equals + 1 == word.size()) throw UsageError(fmt::format("{} needs {}", name, noun));
      return;
    }
    if (at_ == words_.size() || words_[at_].empty()) throw UsageError(fmt::format("{} needs {}", name, noun));
    const std::string& value = words_[at_++];
    const bool is_number = noun == "a number" && value.size() > 1 && std::isdigit(static_cast<unsigned char>(value[1]));
    if (value.size() > 1 && value[0] == '-' && !is_number) {
      throw UsageError(fmt::format("{} needs {}, got the option \"{}\"", name, noun, value));
    }
  }

  [[noreturn]] void unknown(const std::string& word) const {
    std::string guess = guess_of(word, names_);
    if (guess.empty() && word[1] != '-') guess = "; a text that begins with \"-\" stands after \"--\"";
    throw UsageError(fmt::format("unknown option \"{}\"{}", word, guess));
  }

  void check_positionals() const {
    std::size_t most = 0;
    for (const CLI::Option* option : app_.get_options()) {
      if (option->get_positional()) most += static_cast<std::size_t>(option->get_items_expected_max());
    }
    if (positionals_.size() <= most) return;
    std::string text;
    for (const std::string& word : positionals_) text += (text.empty() ? "" : " ") + word;
    std::string quoted;
    for (const char c : text)
      quoted += (std::string_view("\"\\$`").find(c) != std::string_view::npos ? "\\" : "") + std::string(1, c);
    throw UsageError(fmt::format("a text of several words needs quotes: multihead {} \"{}\"", name_, quoted));
  }

  const CLI::App& app_;
  std::string name_;
  std::vector<std::string> words_, names_, positionals_;
  std::size_t at_ = 0;
  std::set<const CLI::Option*> seen_;
};

}  // namespace

bool parse(CLI::App& app, int argc, char** argv) {
  for (int n = 1; n < argc; ++n) {
    const std::string_view word = argv[n];
    if (word == "--") break;
    if (word == "--help" || word == "-h") {
      print(app.help());
      return false;
    }
  }
  try {
    Words(app, argc, argv).check();
    app.parse(argc, argv);
    return true;
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{} (multihead {} --help)", error.what(), argv[0]));
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{} (multihead {} --help)", error.what(), argv[0]));
  }
}

}  // namespace multihead::cli
