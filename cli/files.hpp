// Files that a person named.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace multihead::cli {

/// The bytes of a file; "-" is standard input.
/// @throws Error  "cannot read "x": No such file or directory"
std::string read_file(const std::string& path);

/// Fails now if the file could not be written later, without changing what is there.
/// @throws Error  "cannot write "x": Permission denied"
void check_writable(const std::string& path);

void write_file(const std::string& path, std::string_view content);

/// Where scripts/get-model puts a model: ${XDG_CACHE_HOME:-~/.cache}/multihead/models/NAME.
std::filesystem::path cached_model(std::string_view name);

}  // namespace multihead::cli
