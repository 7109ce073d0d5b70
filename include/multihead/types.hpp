// Scalar types of the library: the index type, the half-width floats, and the run-time dtype.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "multihead/export.hpp"

namespace multihead {

/// Type of every extent, stride and index.
using index_t = std::int64_t;

/// bfloat16: the upper half of an IEEE binary32. Storage only; arithmetic happens in f32.
struct bf16 {
  std::uint16_t bits = 0;
};

/// IEEE binary16. Storage only; arithmetic happens in f32.
struct f16 {
  std::uint16_t bits = 0;
};

/// Element type of a type-erased view.
enum class DType : std::uint8_t { f32, f64, bf16, f16, boolean, i64 };

/// Bytes of one element.
constexpr index_t dtype_bytes(DType dtype) {
  if (dtype == DType::f64 || dtype == DType::i64) return 8;
  if (dtype == DType::f32) return 4;
  if (dtype == DType::bf16 || dtype == DType::f16) return 2;
  return dtype == DType::boolean ? 1 : 0;
}

/// The name used in error texts and JSON: "f32", "bf16", ...
constexpr const char* dtype_name(DType dtype) {
  if (dtype == DType::f32) return "f32";
  if (dtype == DType::f64) return "f64";
  if (dtype == DType::bf16) return "bf16";
  if (dtype == DType::f16) return "f16";
  if (dtype == DType::boolean) return "bool";
  return dtype == DType::i64 ? "i64" : "?";
}

/// dtype_of<T>: the DType of a C++ element type, const or not. InputView and OutputView accept only these types.
template <class T>
inline constexpr DType dtype_of = dtype_of<std::remove_const_t<T>>;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<f16> = DType::f16;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;
template <>
inline constexpr DType dtype_of<index_t> = DType::i64;

/// Conversion to float; always exact.
inline float to_float(bf16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
MULTIHEAD_API float to_float(f16 x);

/// Conversion from float, rounded to nearest, ties to even. NaN stays NaN; overflow gives infinity.
MULTIHEAD_API bf16 to_bf16(float x);
MULTIHEAD_API f16 to_f16(float x);

}  // namespace multihead
