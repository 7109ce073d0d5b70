// A strided view of a dense array that it does not own. Functions take views, and return owners such as Tensor.
//
//   element(i0, .., iR-1) = data[i0*stride(0) + .. + iR-1*stride(R-1)]      strides in elements
//
// A view is made from a pointer and a shape, from a std::vector, std::span or array, or from a Tensor:
//
//   TensorView matrix(pointer, {rows, columns});                 // a TensorView<float, 2> for a float*
//   TensorView transposed(pointer, {rows, columns}, {1, rows});  // strides, in elements
//   TensorView list(numbers);                                    // a TensorView<float, 1> for a std::vector<float>
//   TensorView checked(numbers, {rows, columns});                // throws ShapeError if there are fewer numbers
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

#include "multihead/buffer.hpp"
#include "multihead/types.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // ranks and axes are int, those of std::array are not
namespace multihead {

template <class T, int R>
class Tensor;

/// View of rank R. Strides count elements and may be 0 (a broadcast axis) or negative.
/// A default-constructed view is absent: it converts to false.
template <class T, int R>
class TensorView {
 public:
  using Extents = std::array<index_t, R>;

  constexpr TensorView() = default;

  /// A contiguous array, last axis fastest.
  constexpr TensorView(T* data, Extents shape) : TensorView(data, shape, detail::contiguous_stride(shape)) {}

  constexpr TensorView(T* data, Extents shape, Extents stride)
      : data_(data), shape_(shape), stride_(stride), present_(true) {}

  /// All elements of a vector, span or array.
  template <detail::BufferOf<T> Range>
    requires(R == 1)
  constexpr TensorView(Range&& buffer) : TensorView(std::data(buffer), {static_cast<index_t>(std::size(buffer))}) {}

  /// @throws ShapeError  if the buffer has fewer elements than the shape
  template <detail::BufferOf<T> Range>
  constexpr TensorView(Range&& buffer, Extents shape) : TensorView(std::data(buffer), shape) {
    detail::check_buffer(static_cast<index_t>(std::size(buffer)), shape.data(), R);
  }

  /// A view of T converts to a view of const T.
  constexpr operator TensorView<const T, R>() const
    requires(!std::is_const_v<T>)
  {
    return present_ ? TensorView<const T, R>(data_, shape_, stride_) : TensorView<const T, R>();
  }

  constexpr explicit operator bool() const { return present_; }
  constexpr T* data() const { return data_; }
  constexpr index_t shape(int axis) const { return shape_[axis]; }
  constexpr index_t stride(int axis) const { return stride_[axis]; }
  constexpr const Extents& shape() const { return shape_; }
  constexpr const Extents& stride() const { return stride_; }

  constexpr index_t size() const {
    index_t n = 1;
    for (index_t extent : shape_) n *= extent;
    return n;
  }

  constexpr bool is_contiguous() const {
    index_t step = 1;
    for (int axis = R - 1; axis >= 0; --axis) {
      if (shape_[axis] != 1 && stride_[axis] != step) return false;
      step *= shape_[axis];
    }
    return true;
  }

  template <class... I>
    requires(sizeof...(I) == R)
  constexpr T& operator()(I... index) const {
    const Extents at{static_cast<index_t>(index)...};
    index_t offset = 0;
    for (int axis = 0; axis < R; ++axis) offset += at[axis] * stride_[axis];
    return data_[offset];
  }

  /// The axes in another order: axis a of the result is axis order[a] of this view.
  constexpr TensorView permute(std::array<int, R> order) const {
    TensorView result = *this;
    for (int axis = 0; axis < R; ++axis) {
      result.shape_[axis] = shape_[order[axis]];
      result.stride_[axis] = stride_[order[axis]];
    }
    return result;
  }

  /// Entries [begin, end) along one axis.
  constexpr TensorView slice(int axis, index_t begin, index_t end) const {
    TensorView result = *this;
    result.data_ = data_ + begin * stride_[axis];
    result.shape_[axis] = end - begin;
    return result;
  }

  /// Entry `index` of the first axis, one rank lower.
  constexpr auto operator[](index_t index) const
    requires(R > 1)
  {
    std::array<index_t, R - 1> shape{}, stride{};
    for (int axis = 1; axis < R; ++axis) {
      shape[axis - 1] = shape_[axis];
      stride[axis - 1] = stride_[axis];
    }
    return TensorView<T, R - 1>(data_ + index * stride_[0], shape, stride);
  }

 private:
  T* data_ = nullptr;
  Extents shape_{};
  Extents stride_{};
  bool present_ = false;
};

template <class T, std::size_t R>
TensorView(T*, const index_t (&)[R]) -> TensorView<T, static_cast<int>(R)>;
template <class T, std::size_t R>
TensorView(T*, const index_t (&)[R], const index_t (&)[R]) -> TensorView<T, static_cast<int>(R)>;
template <class T, std::size_t R>
TensorView(T*, std::array<index_t, R>) -> TensorView<T, static_cast<int>(R)>;
template <class T, std::size_t R>
TensorView(T*, std::array<index_t, R>, std::array<index_t, R>) -> TensorView<T, static_cast<int>(R)>;
template <class Range>
  requires(detail::BufferOf<Range, detail::BufferElement<Range>>)
TensorView(Range&&) -> TensorView<detail::BufferElement<Range>, 1>;
template <class Range, std::size_t R>
  requires(detail::BufferOf<Range, detail::BufferElement<Range>>)
TensorView(Range&&, const index_t (&)[R]) -> TensorView<detail::BufferElement<Range>, static_cast<int>(R)>;
template <class T, int R>
TensorView(Tensor<T, R>&) -> TensorView<T, R>;
template <class T, int R>
TensorView(const Tensor<T, R>&) -> TensorView<const T, R>;

}  // namespace multihead
#pragma GCC diagnostic pop
