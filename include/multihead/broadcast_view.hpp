// Views that are broadcast to [B, H, Sq, Skv]: a bias, a mask of visible keys, the gradient of a bias.
//
// They are made from a view of rank 1 to 4 whose last axis is Skv. A missing leading axis counts as one of extent 1; an
// axis of extent 1 is broadcast. Nothing is copied.
//
//   BroadcastView a = tensor;                               // a Tensor or a TensorView of rank 1 to 4
//   BroadcastView b = {pointer, {H, 1, Skv}};               // [1, H, 1, Skv]; strides may follow; or a std::vector
//   BroadcastView c = {address, DType::f32, {Sq, Skv}};     // a dtype known at run time
//   BroadcastView d = {address, DType::f32, shape, stride}; // and a rank as well: std::vectors of 1 to 4
#pragma once

#include <initializer_list>
#include <span>

#include "multihead/any_view.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // ranks and axes are int, those of std::array are not
namespace multihead {

namespace detail {

/// Shape and strides of rank R as the last of four axes; the leading ones have extent 1 and stride 0.
struct BroadcastAxes {
  std::array<index_t, 4> shape{1, 1, 1, 1}, stride{};

  constexpr BroadcastAxes(const index_t* shape_of, const index_t* stride_of, int rank) {
    for (int axis = 0; axis < rank; ++axis) {
      shape[4 - rank + axis] = shape_of[axis];
      stride[4 - rank + axis] = stride_of[axis];
    }
  }
  /// An empty stride = contiguous. @throws ShapeError  unless the rank is 1 to 4 and there are as many strides
  MULTIHEAD_API BroadcastAxes(std::span<const index_t> shape_of, std::span<const index_t> stride_of);
};

/// The common base of BroadcastView (View = InputView) and BroadcastOutput (View = OutputView).
template <template <int> class View, class Void>
class Broadcast : public View<4> {
 public:
  using List = std::initializer_list<index_t>;

  constexpr Broadcast() = default;
  template <int R>
    requires(R >= 1 && R <= 4)
  constexpr Broadcast(const View<R>& view)
      : View<4>(view ? made(view.data(), view.dtype(), {view.shape().data(), view.stride().data(), R}) : View<4>()) {}
  template <Element T, int R>
  constexpr Broadcast(const TensorView<T, R>& view)
    requires(R <= 4 && std::is_constructible_v<View<R>, TensorView<T, R>>)
      : Broadcast(View<R>(view)) {}
  template <Element T, std::size_t R>
    requires(std::is_convertible_v<T*, Void*>)
  constexpr Broadcast(T* data, const index_t (&shape)[R])
      : Broadcast(View<static_cast<int>(R)>(data, std::to_array(shape))) {}
  template <Element T, std::size_t R>
    requires(std::is_convertible_v<T*, Void*>)
  constexpr Broadcast(T* data, const index_t (&shape)[R], const index_t (&stride)[R])
      : Broadcast(View<static_cast<int>(R)>(data, std::to_array(shape), std::to_array(stride))) {}
  /// @throws ShapeError  if the buffer has fewer elements than the shape
  template <class Range, std::size_t R, Element T = BufferElement<Range>>
    requires(BufferOf<Range, T> && std::is_convertible_v<T*, Void*>)
  constexpr Broadcast(Range&& buffer, const index_t (&shape)[R])
      : Broadcast(View<static_cast<int>(R)>(buffer, std::to_array(shape))) {}
  /// An empty stride = contiguous. @throws ShapeError  unless the rank is 1 to 4 and there are as many strides
  Broadcast(Void* data, DType dtype, std::span<const index_t> shape, std::span<const index_t> stride = {})
      : View<4>(made(data, dtype, {shape, stride})) {}
  Broadcast(Void* data, DType dtype, List shape, List stride = {})
      : Broadcast(data, dtype, std::span(shape.begin(), shape.size()), std::span(stride.begin(), stride.size())) {}

 private:
  static constexpr View<4> made(Void* data, DType dtype, const BroadcastAxes& axes) {
    return {data, dtype, axes.shape, axes.stride};
  }
};

}  // namespace detail

class BroadcastView : public detail::Broadcast<InputView, const void> {
 public:
  using Broadcast::Broadcast;
  constexpr BroadcastView() = default;
  template <Element T, int R>
  BroadcastView(const Tensor<T, R>& tensor) : BroadcastView(tensor.view()) {}
  template <class T, int R>
  BroadcastView(const Tensor<T, R>&&) = delete;
  template <int R>
  constexpr BroadcastView(const OutputView<R>& view) : BroadcastView(InputView<R>(view)) {}
};

/// The writable counterpart: a gradient, which is summed over the axes of extent 1.
class BroadcastOutput : public detail::Broadcast<OutputView, void> {
 public:
  using Broadcast::Broadcast;
  constexpr BroadcastOutput() = default;
  template <Element T, int R>
  BroadcastOutput(Tensor<T, R>& tensor) : BroadcastOutput(tensor.view()) {}
  template <class T, int R>
  BroadcastOutput(const Tensor<T, R>&&) = delete;
};

}  // namespace multihead
#pragma GCC diagnostic pop
