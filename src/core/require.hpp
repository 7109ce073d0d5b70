// Error texts of one form: "function: rule, got name=value, name=value; hint".
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "multihead/error.hpp"
#include "multihead/types.hpp"

namespace multihead {

/// One named value of an error text.
struct Got {
  std::string_view name;
  std::string value;

  Got(std::string_view n, index_t v) : name(n), value(std::to_string(v)) {}
  Got(std::string_view n, int v) : name(n), value(std::to_string(v)) {}
  Got(std::string_view n, std::size_t v) : name(n), value(std::to_string(v)) {}
  Got(std::string_view n, double v);
  Got(std::string_view n, std::string v) : name(n), value(std::move(v)) {}
  Got(std::string_view n, const char* v) : name(n), value(v) {}
  Got(std::string_view n, DType v) : name(n), value(dtype_name(v)) {}
};

/// "[2, 3, 4]", as shapes stand in error texts.
std::string shape_text(const index_t* shape, int rank);

/// "function: rule, got a=1, b=2; hint". Parts that are empty are left out.
std::string error_text(std::string_view function, std::string_view rule, std::initializer_list<Got> got,
                       std::string_view hint = {});

/// Throws E with error_text(...) unless `condition` holds.
template <class E = ShapeError>
void require(bool condition, std::string_view function, std::string_view rule, std::initializer_list<Got> got = {},
             std::string_view hint = {}) {
  if (!condition) throw E(error_text(function, rule, got, hint));
}

}  // namespace multihead
