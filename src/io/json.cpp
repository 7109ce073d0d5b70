#include "io/json.hpp"

#include <set>
#include <vector>

#include "core/file_error.hpp"
#include "core/mapped_file.hpp"

namespace multihead {
namespace {

constexpr index_t kMaxBytes = index_t{64} << 20;
constexpr int kMaxDepth = 64;

}  // namespace

void require_no_nul(std::string_view json, const std::filesystem::path& path, std::string_view function) {
  const std::size_t at = json.find('\0');
  require_file(at == json.npos, path, function, "JSON must not hold a NUL byte", {{"at_byte", at}});
}

nlohmann::json read_json(const std::filesystem::path& path, std::string_view function) {
  const MappedFile file(path, function);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  require_file(text.size() <= kMaxBytes, path, function, "a JSON file must be at most 64 MiB",
               {{"file_bytes", text.size()}});
  require_no_nul(text, path, function);

  std::vector<std::set<std::string>> keys;  // of the objects that enclose the current position
  const auto check = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      require_file(depth < kMaxDepth, path, function, "JSON must be nested at most 64 deep", {});
      keys.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      keys.pop_back();
    } else if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      require_file(keys.back().insert(key).second, path, function, "a JSON key must not stand twice in an object",
                   {{"key", quote(key)}});
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, check);
  } catch (const nlohmann::json::parse_error& error) {
    require_file(false, path, function, "the file must be valid JSON in UTF-8", {{"error_at_byte", error.byte}});
  } catch (const nlohmann::json::exception&) {
    require_file(false, path, function, "the file must hold JSON with numbers in range");
  }
  return {};
}

}  // namespace multihead
