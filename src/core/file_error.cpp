#include "core/file_error.hpp"

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
      constexpr char kDigits[] = "0123456789abcdef";
      (result += "\\x").append({kDigits[byte >> 4], kDigits[byte & 15]});
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
