// Errors about files: "function: rule, got name=value; hint (\"path\")".
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/require.hpp"

namespace multihead {

/// Text from a file for an error text: quoted, escaped, cut after 80 bytes.
std::string quote(std::string_view text);

/// Throws CheckpointError with the name of the file unless `condition` holds.
void require_file(bool condition, const std::filesystem::path& path, std::string_view function, std::string_view rule,
                  std::initializer_list<Got> got = {}, std::string_view hint = {});

}  // namespace multihead
