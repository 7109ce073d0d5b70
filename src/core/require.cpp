#include "core/require.hpp"

#include <charconv>

namespace multihead {

Got::Got(std::string_view n, double v) : name(n) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;  // shortest text that reads back the same
  value.assign(buffer, end);
}

std::string shape_text(const index_t* shape, int rank) {
  std::string text = "[";
  for (int axis = 0; axis < rank; ++axis) text += (axis ? ", " : "") + std::to_string(shape[axis]);
  return text + "]";
}

std::string error_text(std::string_view function, std::string_view rule, std::initializer_list<Got> got,
                       std::string_view hint) {
  std::string text;
  text.append(function).append(": ").append(rule);
  bool first = true;
  for (const Got& g : got) {
    text.append(first ? ", got " : ", ").append(g.name).append("=").append(g.value);
    first = false;
  }
  if (!hint.empty()) text.append("; ").append(hint);
  return text;
}

}  // namespace multihead
