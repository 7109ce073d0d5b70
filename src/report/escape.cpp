#include "report/escape.hpp"

namespace multihead {

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += c;
    }
  }
  return result;
}

std::string json_for_script(const nlohmann::json& value) {
  const bool ensure_ascii = true;
  std::string result;
  for (const char c : value.dump(-1, ' ', ensure_ascii, nlohmann::json::error_handler_t::replace)) {
    switch (c) {  // these occur inside strings only
      case '<': result += "\\u003c"; break;
      case '>': result += "\\u003e"; break;
      case '&': result += "\\u0026"; break;
      default: result += c;
    }
  }
  return result;
}

}  // namespace multihead
