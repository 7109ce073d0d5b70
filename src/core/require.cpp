#include "core/require.hpp"

#include <charconv>

namespace multihead {

namespace {

struct ToText {
  std::string operator()(index_t v) const { return std::to_string(v); }
  std::string operator()(std::size_t v) const { return std::to_string(v); }
  std::string operator()(double v) const {
    char buffer[32];
    return {buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr};  // the shortest that parses to v
  }
  std::string operator()(std::string_view v) const { return std::string(v); }
  std::string operator()(const std::string& v) const { return v; }
  std::string operator()(const GotShape& v) const {
    return v.rank < 0 ? "absent" : shape_text(v.extent.data(), v.rank);
  }
};

}  // namespace

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
    text.append(first ? ", got " : ", ").append(g.name).append("=").append(std::visit(ToText(), g.value));
    first = false;
  }
  if (!hint.empty()) text.append("; ").append(hint);
  return text;
}

}  // namespace multihead
