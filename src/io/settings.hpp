// Settings in a JSON file of which only some values are supported.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace multihead {

/// A setting that can change tokens or vectors, but that is not implemented. It may be absent, null, or a value that
/// has no effect.
struct Setting {
  std::string_view key;
  std::string_view harmless;  ///< values without effect, as compact JSON, separated by spaces
};

/// @throws UnsupportedError  in the name of `function`, naming the first setting of `object` that has another value
void require_harmless(const nlohmann::json& object, std::span<const Setting> settings,
                      const std::filesystem::path& path, std::string_view function);

/// For objects with few known keys: each must be in `known`, or in `settings` with a harmless value.
void require_known(const nlohmann::json& object, std::span<const std::string_view> known,
                   std::span<const Setting> settings, const std::filesystem::path& path, std::string_view function);

}  // namespace multihead
