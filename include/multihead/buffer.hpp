// Buffers that views can be made from: containers that hold their elements contiguously and know how many they hold.
#pragma once

#include <array>
#include <iterator>
#include <span>
#include <type_traits>

#include "multihead/export.hpp"
#include "multihead/types.hpp"

namespace multihead::detail {

/// Contiguous elements of type T and their number: a std::vector, std::span or array, but not a temporary that owns.
template <class Range, class T>
concept BufferOf =
    std::is_convertible_v<Range, std::span<T>> &&
    (std::is_lvalue_reference_v<Range> || std::ranges::enable_borrowed_range<std::remove_cvref_t<Range>>);

template <class Range>
using BufferElement = std::remove_reference_t<decltype(*std::data(std::declval<Range&>()))>;

/// @throws ShapeError  if a buffer of `size` elements is too small for `shape`
MULTIHEAD_API void check_buffer(index_t size, const index_t* shape, int rank);

/// The strides, in elements, of a contiguous array whose last axis varies fastest.
template <std::size_t R>
constexpr std::array<index_t, R> contiguous_stride(const std::array<index_t, R>& shape) {
  std::array<index_t, R> stride{};
  index_t step = 1;
  for (std::size_t axis = R; axis-- > 0;) {
    stride[axis] = step;
    step *= shape[axis];
  }
  return stride;
}

}  // namespace multihead::detail
