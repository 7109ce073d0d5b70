// Files that a person named.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "multihead/output_file.hpp"

namespace multihead::cli {

constexpr auto kStandardInput = "-";

/// The bytes of a file; "-" is standard input.
/// @throws Error  "cannot read "x": No such file or directory", or if it has more than 16 MiB
std::string read_file(const std::string& path);

/// A file that a flag names; "-" is standard output. What cannot be written is refused here, before the work, and
/// nothing changes before write().
class Output {
 public:
  /// @throws WriteError
  Output(std::string flag, const std::string& path);

  const std::string& flag() const { return flag_; }
  const std::string& path() const { return path_; }
  bool is_standard_output() const { return file_.descriptor() == 1; }
  bool is_same(const std::filesystem::path& other) const { return file_.is_same(other); }

  /// `fill` writes the content; the file then takes its name.
  /// @throws WriteError
  void write(const std::function<void(OutputFile&)>& fill);
  void write(std::string_view content);

 private:
  std::string flag_, path_;
  OutputFile file_;
};

/// Refuses two outputs in one file, and an output in a file that is read: standard input, `input` (unless empty), or
/// a file of the model's folder (unless empty).
/// @throws UsageError
void check_apart(std::span<const Output* const> outputs, const std::string& input,
                 const std::filesystem::path& model_folder);

/// "cannot write "x": No space left on device"
std::string text_of(const WriteError& error);

/// Where scripts/get-model puts a model: ${XDG_CACHE_HOME:-~/.cache}/multihead/models/NAME.
std::filesystem::path cached_model(std::string_view name);

}  // namespace multihead::cli
