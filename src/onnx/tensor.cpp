#include "multihead/onnx/tensor.hpp"

namespace multihead {

index_t onnx_type_bytes(OnnxType type) {
  switch (type) {
    case OnnxType::f64:
    case OnnxType::i64:
    case OnnxType::u64: return 8;
    case OnnxType::f32:
    case OnnxType::i32:
    case OnnxType::u32: return 4;
    case OnnxType::f16:
    case OnnxType::bf16:
    case OnnxType::i16:
    case OnnxType::u16: return 2;
    case OnnxType::boolean:
    case OnnxType::i8:
    case OnnxType::u8: return 1;
  }
  return 0;
}

const char* onnx_type_name(OnnxType type) {
  switch (type) {
    case OnnxType::f32: return "f32";
    case OnnxType::u8: return "u8";
    case OnnxType::i8: return "i8";
    case OnnxType::u16: return "u16";
    case OnnxType::i16: return "i16";
    case OnnxType::i32: return "i32";
    case OnnxType::i64: return "i64";
    case OnnxType::boolean: return "bool";
    case OnnxType::f16: return "f16";
    case OnnxType::f64: return "f64";
    case OnnxType::u32: return "u32";
    case OnnxType::u64: return "u64";
    case OnnxType::bf16: return "bf16";
  }
  return "?";
}

OnnxTensor::OnnxTensor(OnnxType type, std::vector<index_t> shape)
    : present_(true), type_(type), shape_(std::move(shape)) {
  const auto rank = static_cast<int>(shape_.size());
  bytes_ = Tensor<std::byte, 1>({checked_size(shape_.data(), rank, onnx_type_bytes(type)) * onnx_type_bytes(type)});
}

index_t OnnxTensor::size() const {
  index_t n = 1;
  for (index_t extent : shape_) n *= extent;
  return n;
}

OnnxView OnnxTensor::view() const {
  OnnxView view;
  view.data = bytes();
  view.type = type_;
  view.shape = shape_;
  view.stride.resize(shape_.size());
  view.present = present_;
  index_t step = 1;
  for (std::size_t axis = shape_.size(); axis-- > 0;) {
    view.stride[axis] = step;
    step *= shape_[axis];
  }
  return view;
}

}  // namespace multihead
