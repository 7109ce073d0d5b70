#include "io/file_error.hpp"

#include <fmt/format.h>

namespace multihead {

std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string result = "\"";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result + (text.size() > kLongest ? "..\"" : "\"");
}

void require_file(bool condition, const std::filesystem::path& path, std::string_view function, std::string_view rule,
                  std::initializer_list<Got> got, std::string_view hint) {
  if (condition) return;
  std::string text = error_text(function, rule, got, hint);
  text.append(" (\"").append(path.string()).append("\")");
  throw CheckpointError(text);
}

}  // namespace multihead
