// Views whose element type is known at run time, for functions that take several dtypes.
#pragma once

#include <array>

#include "multihead/tensor_view.hpp"
#include "multihead/types.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // ranks and axes are int, those of std::array are not
namespace multihead {

/// A read-only view of rank R of any DType. Made implicitly from a TensorView.
template <int R>
struct InputView {
  using Extents = std::array<index_t, R>;

  const void* data = nullptr;
  DType dtype = DType::f32;
  Extents shape{};
  Extents stride{};  // in elements
  bool present = false;

  constexpr InputView() = default;
  template <class T>
  constexpr InputView(const TensorView<T, R>& view)
      : data(view.data()), dtype(dtype_of<T>), shape(view.shape()), stride(view.stride()), present(bool(view)) {}

  constexpr explicit operator bool() const { return present; }

  /// The typed view. The caller has checked `dtype`.
  template <class T>
  constexpr TensorView<const T, R> as() const {
    return present ? TensorView<const T, R>(static_cast<const T*>(data), shape, stride) : TensorView<const T, R>();
  }
};

/// A writable view of rank R of any DType. Made implicitly from a TensorView of a non-const type.
template <int R>
struct OutputView {
  using Extents = std::array<index_t, R>;

  void* data = nullptr;
  DType dtype = DType::f32;
  Extents shape{};
  Extents stride{};  // in elements
  bool present = false;

  constexpr OutputView() = default;
  template <class T>
  requires(!std::is_const_v<T>) constexpr OutputView(const TensorView<T, R>& view)
      : data(view.data()), dtype(dtype_of<T>), shape(view.shape()), stride(view.stride()), present(bool(view)) {}

  constexpr explicit operator bool() const { return present; }
  constexpr operator InputView<R>() const {
    InputView<R> view;
    view.data = data;
    view.dtype = dtype;
    view.shape = shape;
    view.stride = stride;
    view.present = present;
    return view;
  }

  template <class T>
  constexpr TensorView<T, R> as() const {
    return present ? TensorView<T, R>(static_cast<T*>(data), shape, stride) : TensorView<T, R>();
  }
};

/// An InputView<4> that broadcasts: made from a view of rank 1 to 4, aligned at the right, missing axes of extent 1.
/// An axis of extent 1 stands for every index (stride 0); nothing is copied.
struct BroadcastView : InputView<4> {
  constexpr BroadcastView() = default;
  template <class T, int R>
  requires(R >= 1 && R <= 4) constexpr BroadcastView(const TensorView<T, R>& view) {
    data = view.data();
    dtype = dtype_of<T>;
    present = bool(view);
    shape.fill(1);
    stride.fill(0);
    for (int axis = 0; axis < R; ++axis) {
      shape[4 - R + axis] = view.shape(axis);
      stride[4 - R + axis] = view.stride(axis);
    }
  }
};

/// The writable twin: a gradient reduced over the axes of extent 1.
struct BroadcastOutput : OutputView<4> {
  constexpr BroadcastOutput() = default;
  template <class T, int R>
  requires(R >= 1 && R <= 4 && !std::is_const_v<T>) constexpr BroadcastOutput(const TensorView<T, R>& view) {
    data = view.data();
    dtype = dtype_of<T>;
    present = bool(view);
    shape.fill(1);
    stride.fill(0);
    for (int axis = 0; axis < R; ++axis) {
      shape[4 - R + axis] = view.shape(axis);
      stride[4 - R + axis] = view.stride(axis);
    }
  }
};

}  // namespace multihead
#pragma GCC diagnostic pop
