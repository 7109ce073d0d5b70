#include "files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "command.hpp"
#include "process.hpp"

namespace multihead::cli {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

/// What a loader may read: a second run must still be able to replace what the first one wrote there.
bool belongs_to_model(const fs::path& file) {
  constexpr std::array kNames = {"config.json",
                                 "tokenizer.json",
                                 "tokenizer_config.json",
                                 "modules.json",
                                 "special_tokens_map.json",
                                 "added_tokens.json",
                                 "merges.txt",
                                 "sentence_bert_config.json",
                                 "vocab.json",
                                 "vocab.txt",
                                 "config_sentence_transformers.json"};
  const std::string name = file.filename();
  const auto ends_with = [&](std::string_view end) { return name.ends_with(end); };
  return std::ranges::find(kNames, name) != kNames.end() || ends_with(".safetensors") || ends_with(".index.json") ||
         ends_with(".bin") || ends_with(".model");
}

std::vector<fs::path> files_of_model(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at.depth() >= 1) at.disable_recursion_pending();
    if (belongs_to_model(at->path())) files.push_back(at->path());
  }
  return files;
}

[[noreturn]] void refuse(const Output& output, const std::string& what) {
  throw UsageError(fmt::format("{} must not name {}, got \"{}\"", output.flag(), what, output.path()));
}

}  // namespace

std::string read_file(const std::string& path) {
  const bool is_standard = path == kStandardInput;
  const std::string name = is_standard ? "standard input" : fmt::format("\"{}\"", path);
  const auto fail = [&] { throw Error(fmt::format("cannot read {}: {}", name, std::strerror(errno))); };
  const File owned(is_standard ? nullptr : std::fopen(path.c_str(), "rb"));
  if (!is_standard && !owned) fail();
  std::FILE* file = is_standard ? stdin : owned.get();
  std::string content;
  char buffer[1 << 16];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, file)) {
    content.append(buffer, got);
    if (content.size() > kMostBytes) {
      throw Error(fmt::format("a text must have at most {} bytes, got more from {}", kMostBytes, name));
    }
  }
  if (std::ferror(file)) fail();
  return content;
}

Output::Output(std::string flag, const std::string& path)
    : flag_(std::move(flag)), path_(path), file_(path == "-" ? "/dev/stdout" : path) {}

void Output::write(const std::function<void(OutputFile&)>& fill) {
  const RemovedBySignal removed(file_.temporary());
  fill(file_);
  file_.finish();
}

void Output::write(std::string_view content) {
  write([&](OutputFile& file) { file.write(content); });
}

void check_apart(std::span<const Output* const> outputs, const std::string& input, const fs::path& model_folder) {
  const std::vector<fs::path> model = model_folder.empty() ? std::vector<fs::path>() : files_of_model(model_folder);
  for (std::size_t a = 0; a < outputs.size(); ++a) {
    const Output& output = *outputs[a];
    for (std::size_t b = 0; b < a; ++b) {
      const std::string& other = outputs[b]->path();
      if (output.is_same(other == "-" ? "/dev/stdout" : other)) refuse(output, "the file of " + outputs[b]->flag());
    }
    if (!output.is_standard_output() && output.is_same("/dev/stdout")) refuse(output, "the file of standard output");
    if (!output.is_standard_output() && output.is_same("/dev/stdin")) refuse(output, "the file of standard input");
    if (!input.empty() && output.is_same(input)) refuse(output, "the file that is read");
    for (const fs::path& file : model) {
      if (output.is_same(file)) refuse(output, "a file of the model");
    }
  }
}

std::string text_of(const WriteError& error) {
  const std::string path = error.path().string();
  const bool is_stream = path == "standard output" || path == "/dev/stdout";
  return fmt::format("cannot write {}: {}", is_stream ? "standard output" : "\"" + path + "\"", error.reason());
}

fs::path cached_model(std::string_view name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const auto base = cache && *cache ? fs::path(cache) : fs::path(home ? home : ".") / ".cache";
  return base / "multihead" / "models" / name;
}

}  // namespace multihead::cli
