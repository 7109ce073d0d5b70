// Reads JSON files of a model folder, with limits: size, depth, no duplicate keys.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace multihead {

/// Checks that there is no NUL, which JSON does not allow: parsers of C strings would ignore everything after it.
/// @throws CheckpointError  in the name of `function`, if there is one
void require_no_nul(std::string_view json, const std::filesystem::path& path, std::string_view function);

/// Parses a JSON file of at most 64 MiB, nested at most 64 deep.
/// @throws CheckpointError  in the name of `function`, if it is missing, is not valid JSON in UTF-8, is larger or
///                          deeper, or an object has a key twice
nlohmann::json read_json(const std::filesystem::path& path, std::string_view function);

}  // namespace multihead
