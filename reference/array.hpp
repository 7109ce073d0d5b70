// Any view as a plain array of one arithmetic type, and back.
#pragma once

#include <vector>

#include "multihead/any_view.hpp"
#include "reference/rounding.hpp"

namespace multihead::reference {

/// A dense array of rank R, last axis fastest.
template <class Real, int R>
struct Array {
  std::array<index_t, R> shape{};
  std::vector<Real> values;

  Array() = default;
  explicit Array(std::array<index_t, R> extents, Real fill = Real(0)) : shape(extents) {
    index_t size = 1;
    for (index_t extent : shape) size *= extent;
    values.assign(static_cast<std::size_t>(size), fill);
  }

  template <class... I>
  Real& operator()(I... index) {
    return values[offset({static_cast<index_t>(index)...})];
  }
  template <class... I>
  const Real& operator()(I... index) const {
    return values[offset({static_cast<index_t>(index)...})];
  }

  std::size_t offset(std::array<index_t, R> index) const {
    index_t at = 0;
    for (int axis = 0; axis < R; ++axis) at = at * shape[axis] + index[axis];
    return static_cast<std::size_t>(at);
  }
};

/// Element `offset` of an array of `dtype`; a bool is 0 or 1.
template <class Real>
Real read_element(const void* data, DType dtype, index_t offset);

/// Rounds `value` to `dtype`, to nearest, and stores it.
template <class Real>
void write_element(void* data, DType dtype, index_t offset, Real value);

/// All elements of a view; an absent view gives an array of extents 0.
template <class Real, int R>
Array<Real, R> read(const InputView<R>& view);

/// Stores `array` in a view of its shape; an absent view is left alone.
template <class Real, int R>
void write(const Array<Real, R>& array, const OutputView<R>& view);

}  // namespace multihead::reference
