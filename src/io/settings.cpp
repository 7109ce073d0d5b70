#include "io/settings.hpp"

#include <algorithm>

#include "core/file_error.hpp"

namespace multihead {
namespace {

bool is_harmless(const nlohmann::json& value, std::string_view harmless) {
  if (value.is_null()) return true;
  const std::string text = value.dump();
  while (!harmless.empty()) {
    const std::size_t end = std::min(harmless.find(' '), harmless.size());
    if (harmless.substr(0, end) == text) return true;
    harmless.remove_prefix(std::min(end + 1, harmless.size()));
  }
  return false;
}

[[noreturn]] void decline(std::string_view rule, std::string_view key, const nlohmann::json& value,
                          const std::string& hint, const std::filesystem::path& path, std::string_view function) {
  throw UnsupportedError(error_text(function, rule, {{key, quote(value.dump())}}, hint) + " (\"" + path.string() +
                         "\")");
}

}  // namespace

void require_harmless(const nlohmann::json& object, std::span<const Setting> settings,
                      const std::filesystem::path& path, std::string_view function) {
  for (const Setting& setting : settings) {
    const auto found = object.find(std::string(setting.key));
    if (found == object.end() || is_harmless(*found, setting.harmless)) continue;
    decline("a setting must have a value that is handled", setting.key, *found,
            "handled: " + (setting.harmless.empty() ? "" : std::string(setting.harmless) + " or ") + "absent", path,
            function);
  }
}

void require_known(const nlohmann::json& object, std::span<const std::string_view> known,
                   std::span<const Setting> settings, const std::filesystem::path& path, std::string_view function) {
  require_harmless(object, settings, path, function);
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    if (std::ranges::find(settings, key, &Setting::key) != settings.end()) continue;
    decline("a setting must be one that is known", key, value, "", path, function);
  }
}

}  // namespace multihead
