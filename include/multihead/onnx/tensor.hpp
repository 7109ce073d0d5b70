// Tensors of any rank and numeric element type, as ONNX defines them: OnnxView for inputs, OnnxTensor for results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "multihead/tensor.hpp"
#include "multihead/tensor_view.hpp"

namespace multihead {

/// Element types, by their numbers in the standard (TensorProto.DataType).
enum class OnnxType : std::int32_t {
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  bf16 = 16
};

/// Bytes of one element; 0 for a number that is not one of OnnxType.
MULTIHEAD_API index_t onnx_type_bytes(OnnxType type);

/// The name used in error texts: "f32", "i64", "bool", ...
MULTIHEAD_API const char* onnx_type_name(OnnxType type);

/// onnx_type_of<T>: the OnnxType of a C++ element type, const or not.
template <class T>
inline constexpr OnnxType onnx_type_of = onnx_type_of<std::remove_const_t<T>>;
// clang-format off
template <> inline constexpr OnnxType onnx_type_of<float> = OnnxType::f32;
template <> inline constexpr OnnxType onnx_type_of<double> = OnnxType::f64;
template <> inline constexpr OnnxType onnx_type_of<f16> = OnnxType::f16;
template <> inline constexpr OnnxType onnx_type_of<bf16> = OnnxType::bf16;
template <> inline constexpr OnnxType onnx_type_of<bool> = OnnxType::boolean;
template <> inline constexpr OnnxType onnx_type_of<std::int8_t> = OnnxType::i8;
template <> inline constexpr OnnxType onnx_type_of<std::int16_t> = OnnxType::i16;
template <> inline constexpr OnnxType onnx_type_of<std::int32_t> = OnnxType::i32;
template <> inline constexpr OnnxType onnx_type_of<std::int64_t> = OnnxType::i64;
template <> inline constexpr OnnxType onnx_type_of<std::uint8_t> = OnnxType::u8;
template <> inline constexpr OnnxType onnx_type_of<std::uint16_t> = OnnxType::u16;
template <> inline constexpr OnnxType onnx_type_of<std::uint32_t> = OnnxType::u32;
template <> inline constexpr OnnxType onnx_type_of<std::uint64_t> = OnnxType::u64;
// clang-format on

/// A read-only view of a tensor. A default-constructed one is absent: an optional input that is not given.
struct OnnxView {
  const void* data = nullptr;
  OnnxType type = OnnxType::f32;
  std::vector<index_t> shape = {};
  std::vector<index_t> stride = {};  ///< in elements
  bool present = false;

  OnnxView() = default;
  template <class T, int R>
  OnnxView(const TensorView<T, R>& view)
      : data(view.data()),
        type(onnx_type_of<T>),
        shape(view.shape().begin(), view.shape().end()),
        stride(view.stride().begin(), view.stride().end()),
        present(bool(view)) {}
  template <class T, int R>
  OnnxView(const Tensor<T, R>& tensor) : OnnxView(tensor.view()) {}

  explicit operator bool() const { return present; }
  int rank() const { return static_cast<int>(shape.size()); }
};

/// A contiguous tensor that owns its data. A default-constructed one is absent: an optional output not requested.
class MULTIHEAD_API OnnxTensor {
 public:
  OnnxTensor() = default;

  /// Zero-filled.
  /// @throws ShapeError  if an extent is negative or the number of bytes overflows
  OnnxTensor(OnnxType type, std::vector<index_t> shape);

  explicit operator bool() const { return present_; }
  OnnxType type() const { return type_; }
  const std::vector<index_t>& shape() const { return shape_; }
  index_t size() const;  ///< elements
  std::byte* bytes() { return bytes_.data(); }
  const std::byte* bytes() const { return bytes_.data(); }

  /// The elements, row-major. T must be the type that type() names: this is not checked.
  template <class T>
  T* data() {
    return reinterpret_cast<T*>(bytes_.data());
  }
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes_.data());
  }

  OnnxView view() const;
  operator OnnxView() const { return view(); }

 private:
  bool present_ = false;
  OnnxType type_ = OnnxType::f32;
  std::vector<index_t> shape_;
  Tensor<std::byte, 1> bytes_;
};

}  // namespace multihead
