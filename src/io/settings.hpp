// Settings of a JSON file that are handled for some of their values only.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace multihead {

/// A setting that can change tokens or vectors and that no code here acts on: it may be absent, null, or one of the
/// values under which it changes nothing.
struct Setting {
  std::string_view key;
  std::string_view harmless;  ///< values as compact JSON, separated by spaces; empty: must be absent or null
};

/// @throws UnsupportedError  in the name of `function`, naming the first setting of `object` that has another value
void require_harmless(const nlohmann::json& object, std::span<const Setting> settings,
                      const std::filesystem::path& path, std::string_view function);

/// For objects of few known keys: each must be among `known` or `settings`, and harmless in the latter.
void require_known(const nlohmann::json& object, std::span<const std::string_view> known,
                   std::span<const Setting> settings, const std::filesystem::path& path, std::string_view function);

}  // namespace multihead
