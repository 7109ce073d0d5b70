// The header of a safetensors file, parsed by its grammar and checked against the size of the file.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "multihead/safetensors.hpp"

namespace multihead {

struct SafetensorsContent {
  std::map<std::string, StoredTensor, std::less<>> tensors;  // data points into the file
  std::map<std::string, std::string> metadata;
};

/// Bits of one element of a stored dtype ("F32" is 32, "F4" is 4); empty if the name is unknown.
std::optional<index_t> stored_dtype_bits(std::string_view dtype);

/// The name of a dtype in the file: "F32" for DType::f32.
std::string_view stored_dtype_name(DType dtype);

/// Reads the header of `file` and checks every rule of the format.
/// @throws CheckpointError  in the name of load_safetensors
SafetensorsContent parse_safetensors(std::span<const std::byte> file, const std::filesystem::path& path);

}  // namespace multihead
