#include "report/fill.hpp"

namespace multihead {

std::string fill(std::string_view text, const std::vector<std::pair<std::string_view, std::string_view>>& values) {
  std::string page;
  while (true) {
    const std::size_t open = text.find("{{");
    page += text.substr(0, open);
    if (open == std::string_view::npos) return page;
    const std::size_t close = text.find("}}", open);
    const std::string_view mark = text.substr(open + 2, close - open - 2);
    for (const auto& [name, value] : values) {
      if (name == mark) page += value;
    }
    text.remove_prefix(close + 2);
  }
}

}  // namespace multihead
