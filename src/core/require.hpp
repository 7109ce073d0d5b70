// Error texts of one form: "function: rule, got name=value, name=value; hint".
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "multihead/error.hpp"
#include "multihead/types.hpp"

namespace multihead {

// A check that passes must cost almost nothing: values and rules are stored as they are, and converted to text only for
// an error.

/// The shape of a view of at most four axes as a value in an error text; "absent" for an absent view.
struct GotShape {
  std::array<index_t, 4> extent{};
  int rank = -1;

  GotShape() = default;
  GotShape(const index_t* first, int r) : rank(r) {
    for (int axis = 0; axis < r; ++axis) extent[static_cast<std::size_t>(axis)] = first[axis];
  }
};

/// One named value in an error text.
struct Got {
  std::string_view name;
  std::variant<index_t, std::size_t, double, std::string_view, std::string, GotShape> value;

  Got(std::string_view n, index_t v) : name(n), value(v) {}
  Got(std::string_view n, int v) : name(n), value(index_t{v}) {}
  Got(std::string_view n, std::size_t v) : name(n), value(v) {}
  Got(std::string_view n, double v) : name(n), value(v) {}
  Got(std::string_view n, std::string v) : name(n), value(std::move(v)) {}
  Got(std::string_view n, std::string_view v) : name(n), value(v) {}
  Got(std::string_view n, const char* v) : name(n), value(std::string_view(v)) {}
  Got(std::string_view n, DType v) : name(n), value(std::string_view(dtype_name(v))) {}
  Got(std::string_view n, const GotShape& v) : name(n), value(v) {}
};

/// A rule in words, or in parts to concatenate: Rule(name, " must be given").
class Rule {
 public:
  template <class... Parts>
  Rule(const Parts&... parts) : parts_{std::string_view(parts)...} {}  // implicit: most rules are one literal

  std::string text() const {
    std::string text;
    for (std::string_view part : parts_) text += part;
    return text;
  }

 private:
  std::array<std::string_view, 5> parts_;
};

/// "[2, 3, 4]": a shape for an error text.
std::string shape_text(const index_t* shape, int rank);
inline std::string shape_text(std::span<const index_t> shape) {
  return shape_text(shape.data(), static_cast<int>(shape.size()));
}

/// "function: rule, got a=1, b=2; hint". Empty parts are left out.
std::string error_text(std::string_view function, std::string_view rule, std::initializer_list<Got> got,
                       std::string_view hint = {});

/// Throws E with error_text(...) unless `condition` holds.
template <class E = ShapeError>
void require(bool condition, std::string_view function, const Rule& rule, std::initializer_list<Got> got = {},
             std::string_view hint = {}) {
  if (!condition) throw E(error_text(function, rule.text(), got, hint));
}

}  // namespace multihead
