// Elements whose storage type is known at run time.
#pragma once

#include <type_traits>

#include "multihead/types.hpp"

namespace multihead {

/// Calls fn(T*) with the data as its floating-point type T: f32, f64, bf16 or f16. Constness is that of `data`.
template <class Data, class Fn>
decltype(auto) visit_floats(Data* data, DType dtype, const Fn& fn) {
  const auto as = [&]<class T>(std::type_identity<T>) {
    return static_cast<std::conditional_t<std::is_const_v<Data>, const T, T>*>(data);
  };
  switch (dtype) {
    case DType::f64: return fn(as(std::type_identity<double>()));
    case DType::bf16: return fn(as(std::type_identity<bf16>()));
    case DType::f16: return fn(as(std::type_identity<f16>()));
    default: return fn(as(std::type_identity<float>()));
  }
}

inline double to_double(double x) { return x; }
inline double to_double(float x) { return x; }
inline double to_double(bf16 x) { return to_float(x); }
inline double to_double(f16 x) { return to_float(x); }

// Rounded to nearest; by way of f32 to the half-width types.
inline void assign(double& to, double value) { to = value; }
inline void assign(float& to, double value) { to = static_cast<float>(value); }
inline void assign(bf16& to, double value) { to = to_bf16(static_cast<float>(value)); }
inline void assign(f16& to, double value) { to = to_f16(static_cast<float>(value)); }

/// Element n of floating-point data.
inline double load_element(const void* data, DType dtype, index_t n) {
  return visit_floats(data, dtype, [&](const auto* x) { return to_double(x[n]); });
}
inline void store_element(void* data, DType dtype, index_t n, double value) {
  visit_floats(data, dtype, [&](auto* x) { assign(x[n], value); });
}

}  // namespace multihead
