// A view with one thing changed: how a test spoils a valid call.
#pragma once

#include "multihead/broadcast_view.hpp"

namespace multihead::test {

/// View is an InputView, OutputView, BroadcastView or BroadcastOutput.
template <class View>
void set_data(View& view, void* data) {
  view = View(data, view.dtype(), view.shape(), view.stride());
}
template <class View>
void set_dtype(View& view, DType dtype) {
  view = View(view.data(), dtype, view.shape(), view.stride());
}
template <class View>
void set_extent(View& view, std::size_t axis, index_t extent) {
  auto shape = view.shape();
  shape[axis] = extent;
  view = View(view.data(), view.dtype(), shape, view.stride());
}
template <class View>
void set_stride(View& view, std::size_t axis, index_t step) {
  auto stride = view.stride();
  stride[axis] = step;
  view = View(view.data(), view.dtype(), view.shape(), stride);
}

}  // namespace multihead::test
