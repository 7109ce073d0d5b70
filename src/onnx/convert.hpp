// Between ONNX element types and the types that the core computes in.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "multihead/any_view.hpp"
#include "multihead/onnx/tensor.hpp"

namespace multihead {

/// A view of rank 4 with strides in elements, of any ONNX type.
struct OnnxView4 {
  const void* data = nullptr;
  OnnxType type = OnnxType::f32;
  std::array<index_t, 4> shape{};
  std::array<index_t, 4> stride{};
};

/// Calls f(T{}) with the C++ type T of `type`.
template <class F>
void visit_onnx_type(OnnxType type, F&& f) {
  switch (type) {
    case OnnxType::f32: return f(float{});
    case OnnxType::f64: return f(double{});
    case OnnxType::f16: return f(f16{});
    case OnnxType::bf16: return f(bf16{});
    case OnnxType::boolean: return f(bool{});
    case OnnxType::i8: return f(std::int8_t{});
    case OnnxType::i16: return f(std::int16_t{});
    case OnnxType::i32: return f(std::int32_t{});
    case OnnxType::i64: return f(std::int64_t{});
    case OnnxType::u8: return f(std::uint8_t{});
    case OnnxType::u16: return f(std::uint16_t{});
    case OnnxType::u32: return f(std::uint32_t{});
    case OnnxType::u64: return f(std::uint64_t{});
  }
}

/// x in the computing type C, float or double. A finite number stays finite: f64 beyond f32 becomes the largest f32.
template <class C, class T>
C compute_value(T x) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return to_float(x);
  } else if constexpr (std::is_same_v<T, double> && std::is_same_v<C, float>) {
    constexpr double kLargest = std::numeric_limits<float>::max();
    return static_cast<float>(std::isfinite(x) ? std::clamp(x, -kLargest, kLargest) : x);
  } else {
    return static_cast<C>(x);
  }
}

/// A result of the computing type C, rounded to the output type T.
template <class T, class C>
T output_value(C x) {
  if constexpr (std::is_same_v<T, f16>) {
    return to_f16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

/// Calls f(index, i0, i1, i2, i3) in row-major order; index counts from 0.
template <class F>
void for_each_index(const std::array<index_t, 4>& shape, F&& f) {
  index_t index = 0;
  for (index_t i0 = 0; i0 < shape[0]; ++i0)
    for (index_t i1 = 0; i1 < shape[1]; ++i1)
      for (index_t i2 = 0; i2 < shape[2]; ++i2)
        for (index_t i3 = 0; i3 < shape[3]; ++i3) f(index++, i0, i1, i2, i3);
}

/// factor * view, contiguous, in the computing type C.
template <class C>
Tensor<C, 4> converted(const OnnxView4& view, C factor = C{1}) {
  Tensor<C, 4> result(view.shape);
  visit_onnx_type(view.type, [&](auto element) {
    const TensorView<const decltype(element), 4> from(static_cast<const decltype(element)*>(view.data), view.shape,
                                                      view.stride);
    for_each_index(view.shape, [&](index_t index, index_t i0, index_t i1, index_t i2, index_t i3) {
      result.data()[index] = factor * compute_value<C>(from(i0, i1, i2, i3));
    });
  });
  return result;
}

/// Rounds `from` to the float type `type` at `to`, whose strides count elements of that type.
template <class C>
void store_rounded(TensorView<const C, 4> from, OnnxType type, void* to, const std::array<index_t, 4>& stride) {
  visit_onnx_type(type, [&](auto element) {
    using T = decltype(element);
    const TensorView<T, 4> target(static_cast<T*>(to), from.shape(), stride);
    for_each_index(from.shape(), [&](index_t, index_t i0, index_t i1, index_t i2, index_t i3) {
      target(i0, i1, i2, i3) = output_value<T>(from(i0, i1, i2, i3));
    });
  });
}

/// The core's name of a type that it has; f32 for others.
constexpr DType core_dtype(OnnxType type) {
  switch (type) {
    case OnnxType::f64: return DType::f64;
    case OnnxType::f16: return DType::f16;
    case OnnxType::bf16: return DType::bf16;
    case OnnxType::boolean: return DType::boolean;
    case OnnxType::i64: return DType::i64;
    default: return DType::f32;
  }
}

inline InputView<4> core_input(const OnnxView4& view) {
  return {view.data, core_dtype(view.type), view.shape, view.stride};
}

inline OutputView<4> core_output(void* data, OnnxType type, const std::array<index_t, 4>& shape,
                                 const std::array<index_t, 4>& stride) {
  return {data, core_dtype(type), shape, stride};
}

}  // namespace multihead
