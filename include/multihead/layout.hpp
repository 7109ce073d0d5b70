// Views indexed [B, S, H, D], as attention takes them, of buffers in the two usual memory orders.
//
//   bshd(data, B, S, H, D)   token by token, as a projection writes them:   data[((b*S + s)*H + h)*D + d]
//   bhsd(data, B, H, S, D)   head by head, as most libraries store them:    data[((b*H + h)*S + s)*D + d]
//
// In both cases this element is view(b, s, h, d). `data` is one of
//
//   a pointer to float, double, bf16 or f16, const or not
//   a std::vector, std::span or array of these; it throws ShapeError if it has fewer elements than the extents need
//   an untyped pointer and its DType
//
// Strides, in elements and in the order of the buffer's own axes, may follow the extents. For example, for queries,
// keys and values in one buffer [B, S, 3, H, D]:
//
//   const std::array<index_t, 4> stride = {S * 3 * H * D, 3 * H * D, D, 1};
//   attention_forward({.q = bshd(qkv, B, S, H, D, stride),
//                      .k = bshd(qkv + H * D, B, S, H, D, stride),
//                      .v = bshd(qkv + 2 * H * D, B, S, H, D, stride)},
//                     {.out = bshd(out_data, B, S, H, D)});
//
// Strides also describe padded rows, such as [B, S, H, D] in a buffer [B, S, H, 2 * D].
#pragma once

#include "multihead/any_view.hpp"

namespace multihead {

using Strides4 = std::array<index_t, 4>;

template <Element T>
constexpr TensorView<T, 4> bshd(T* data, index_t B, index_t S, index_t H, index_t D) {
  return {data, {B, S, H, D}};
}
template <Element T>
constexpr TensorView<T, 4> bshd(T* data, index_t B, index_t S, index_t H, index_t D, const Strides4& stride) {
  return {data, {B, S, H, D}, stride};
}
template <class Range, Element T = detail::BufferElement<Range>>
  requires(detail::BufferOf<Range, T>)
constexpr TensorView<T, 4> bshd(Range&& data, index_t B, index_t S, index_t H, index_t D) {
  return {data, {B, S, H, D}};
}
inline InputView<4> bshd(const void* data, DType dtype, index_t B, index_t S, index_t H, index_t D) {
  return {data, dtype, {B, S, H, D}};
}
inline OutputView<4> bshd(void* data, DType dtype, index_t B, index_t S, index_t H, index_t D) {
  return {data, dtype, {B, S, H, D}};
}
inline InputView<4> bshd(const void* data, DType dtype, index_t B, index_t S, index_t H, index_t D,
                         const Strides4& stride) {
  return {data, dtype, {B, S, H, D}, stride};
}
inline OutputView<4> bshd(void* data, DType dtype, index_t B, index_t S, index_t H, index_t D, const Strides4& stride) {
  return {data, dtype, {B, S, H, D}, stride};
}

/// A view or tensor whose axes are [B, H, S, D].
template <Element T>
constexpr TensorView<T, 4> bhsd(const TensorView<T, 4>& view) {
  return view.permute({0, 2, 1, 3});
}
template <Element T>
TensorView<T, 4> bhsd(Tensor<T, 4>& tensor) {
  return bhsd(tensor.view());
}
template <Element T>
TensorView<const T, 4> bhsd(const Tensor<T, 4>& tensor) {
  return bhsd(tensor.view());
}
template <class T>
void bhsd(const Tensor<T, 4>&&) = delete;

template <Element T>
constexpr TensorView<T, 4> bhsd(T* data, index_t B, index_t H, index_t S, index_t D) {
  return bhsd(TensorView<T, 4>(data, {B, H, S, D}));
}
template <Element T>
constexpr TensorView<T, 4> bhsd(T* data, index_t B, index_t H, index_t S, index_t D, const Strides4& stride) {
  return bhsd(TensorView<T, 4>(data, {B, H, S, D}, stride));
}
template <class Range, Element T = detail::BufferElement<Range>>
  requires(detail::BufferOf<Range, T>)
constexpr TensorView<T, 4> bhsd(Range&& data, index_t B, index_t H, index_t S, index_t D) {
  return bhsd(TensorView<T, 4>(data, {B, H, S, D}));
}
inline InputView<4> bhsd(const void* data, DType dtype, index_t B, index_t H, index_t S, index_t D,
                         const Strides4& stride) {
  return {data, dtype, {B, S, H, D}, {stride[0], stride[2], stride[1], stride[3]}};
}
inline OutputView<4> bhsd(void* data, DType dtype, index_t B, index_t H, index_t S, index_t D, const Strides4& stride) {
  return {data, dtype, {B, S, H, D}, {stride[0], stride[2], stride[1], stride[3]}};
}
inline InputView<4> bhsd(const void* data, DType dtype, index_t B, index_t H, index_t S, index_t D) {
  return bhsd(data, dtype, B, H, S, D, detail::contiguous_stride(Strides4{B, H, S, D}));
}
inline OutputView<4> bhsd(void* data, DType dtype, index_t B, index_t H, index_t S, index_t D) {
  return bhsd(data, dtype, B, H, S, D, detail::contiguous_stride(Strides4{B, H, S, D}));
}

}  // namespace multihead
