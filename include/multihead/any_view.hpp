// Views whose element type is known at run time, for functions that take several dtypes.
//
//   InputView<2> a = tensor;                           // a Tensor or a TensorView, const or not
//   InputView<2> b = {pointer, {2, 3}};                // a typed pointer and a shape, last axis fastest
//   InputView<2> c = {pointer, {2, 3}, {6, 2}};        // the same with strides, in elements
//   InputView<2> d = {address, DType::bf16, {2, 3}};   // a dtype known at run time; strides may follow
//   InputView<1> e = numbers;                          // a std::vector, std::span or array
//
// A view is absent (converts to false) only if it was default-constructed or made from an absent TensorView; a view
// without elements is present. Views do not own their data, so none can be made from a temporary Tensor.
#pragma once

#include <array>
#include <concepts>

#include "multihead/tensor_view.hpp"
#include "multihead/types.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // ranks and axes are int, those of std::array are not
namespace multihead {

/// A C++ type that has a DType, const or not.
template <class T>
concept Element = std::same_as<std::remove_const_t<T>, float> || std::same_as<std::remove_const_t<T>, double> ||
                  std::same_as<std::remove_const_t<T>, bf16> || std::same_as<std::remove_const_t<T>, f16> ||
                  std::same_as<std::remove_const_t<T>, bool> || std::same_as<std::remove_const_t<T>, index_t>;

namespace detail {

/// The common base of InputView (Void = const void) and OutputView (Void = void).
template <class Void, int R>
class AnyView {
 public:
  using Extents = std::array<index_t, R>;
  template <class T>
  using Typed = TensorView<std::conditional_t<std::is_const_v<Void>, const T, T>, R>;

  constexpr AnyView() = default;
  constexpr AnyView(Void* data, DType dtype, const Extents& shape, const Extents& stride)
      : data_(data), dtype_(dtype), present_(true), shape_(shape), stride_(stride) {}

  constexpr explicit operator bool() const { return present_; }
  constexpr Void* data() const { return data_; }
  constexpr DType dtype() const { return dtype_; }
  constexpr index_t shape(int axis) const { return shape_[axis]; }
  constexpr index_t stride(int axis) const { return stride_[axis]; }  ///< in elements
  constexpr const Extents& shape() const { return shape_; }
  constexpr const Extents& stride() const { return stride_; }

  /// The same view with element type T, which must be the type that dtype() names: this is not checked.
  template <class T>
  constexpr Typed<T> as() const {
    using Pointer = decltype(Typed<T>().data());
    return present_ ? Typed<T>(static_cast<Pointer>(data_), shape_, stride_) : Typed<T>();
  }

 protected:
  template <class T>
  constexpr explicit AnyView(const TensorView<T, R>& view)
      : data_(view.data()), dtype_(dtype_of<T>), present_(view), shape_(view.shape()), stride_(view.stride()) {}

 private:
  Void* data_ = nullptr;
  DType dtype_ = DType::f32;
  bool present_ = false;
  Extents shape_{}, stride_{};
};

}  // namespace detail

/// A writable view of rank R of any DType. It cannot be made from const data.
template <int R>
class OutputView : public detail::AnyView<void, R> {
  using Base = detail::AnyView<void, R>;

 public:
  using typename Base::Extents;

  constexpr OutputView() = default;
  template <Element T>
    requires(!std::is_const_v<T>)
  constexpr OutputView(const TensorView<T, R>& view) : Base(view) {}
  template <Element T>
  OutputView(Tensor<T, R>& tensor) : OutputView(tensor.view()) {}
  template <class T>
  OutputView(const Tensor<T, R>&&) = delete;
  template <Element T>
    requires(!std::is_const_v<T>)
  constexpr OutputView(T* data, Extents shape) : OutputView(TensorView<T, R>(data, shape)) {}
  template <Element T>
    requires(!std::is_const_v<T>)
  constexpr OutputView(T* data, Extents shape, Extents stride) : Base(data, dtype_of<T>, shape, stride) {}
  constexpr OutputView(void* data, DType dtype, Extents shape)
      : Base(data, dtype, shape, detail::contiguous_stride(shape)) {}
  constexpr OutputView(void* data, DType dtype, Extents shape, Extents stride) : Base(data, dtype, shape, stride) {}
  /// @throws ShapeError  if the buffer has fewer elements than the shape
  template <class Range, Element T = detail::BufferElement<Range>>
    requires(detail::BufferOf<Range, T> && !std::is_const_v<T>)
  constexpr OutputView(Range&& buffer, Extents shape) : Base(TensorView<T, R>(buffer, shape)) {}
  template <class Range, Element T = detail::BufferElement<Range>>
    requires(R == 1 && detail::BufferOf<Range, T> && !std::is_const_v<T>)
  constexpr OutputView(Range&& buffer) : Base(TensorView<T, R>(buffer)) {}
};

/// A read-only view of rank R of any DType.
template <int R>
class InputView : public detail::AnyView<const void, R> {
  using Base = detail::AnyView<const void, R>;

 public:
  using typename Base::Extents;

  constexpr InputView() = default;
  template <Element T>
  constexpr InputView(const TensorView<T, R>& view) : Base(view) {}
  template <Element T>
  InputView(const Tensor<T, R>& tensor) : InputView(tensor.view()) {}
  template <class T>
  InputView(const Tensor<T, R>&&) = delete;
  constexpr InputView(const OutputView<R>& view)
      : Base(view ? Base(view.data(), view.dtype(), view.shape(), view.stride()) : Base()) {}
  template <Element T>
  constexpr InputView(T* data, Extents shape) : InputView(TensorView<T, R>(data, shape)) {}
  template <Element T>
  constexpr InputView(T* data, Extents shape, Extents stride) : Base(data, dtype_of<T>, shape, stride) {}
  constexpr InputView(const void* data, DType dtype, Extents shape)
      : Base(data, dtype, shape, detail::contiguous_stride(shape)) {}
  constexpr InputView(const void* data, DType dtype, Extents shape, Extents stride)
      : Base(data, dtype, shape, stride) {}
  /// @throws ShapeError  if the buffer has fewer elements than the shape
  template <class Range, Element T = detail::BufferElement<Range>>
    requires(detail::BufferOf<Range, T>)
  constexpr InputView(Range&& buffer, Extents shape) : Base(TensorView<T, R>(buffer, shape)) {}
  template <class Range, Element T = detail::BufferElement<Range>>
    requires(R == 1 && detail::BufferOf<Range, T>)
  constexpr InputView(Range&& buffer) : Base(TensorView<T, R>(buffer)) {}
};

template <class T, std::size_t R>
InputView(T*, const index_t (&)[R]) -> InputView<static_cast<int>(R)>;
template <class T, std::size_t R>
InputView(T*, const index_t (&)[R], const index_t (&)[R]) -> InputView<static_cast<int>(R)>;
template <class T, std::size_t R>
OutputView(T*, const index_t (&)[R]) -> OutputView<static_cast<int>(R)>;
template <class T, std::size_t R>
OutputView(T*, const index_t (&)[R], const index_t (&)[R]) -> OutputView<static_cast<int>(R)>;
template <std::size_t R>
InputView(const void*, DType, const index_t (&)[R]) -> InputView<static_cast<int>(R)>;
template <std::size_t R>
OutputView(void*, DType, const index_t (&)[R]) -> OutputView<static_cast<int>(R)>;

}  // namespace multihead
#pragma GCC diagnostic pop
