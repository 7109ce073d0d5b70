// An owning, contiguous, 64-byte aligned array.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>

#include "multihead/error.hpp"
#include "multihead/export.hpp"
#include "multihead/tensor_view.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // ranks and axes are int, those of std::array are not
namespace multihead {

/// Product of non-negative extents; throws ShapeError if one is negative or the product or its bytes overflow.
MULTIHEAD_API index_t checked_size(const index_t* shape, int rank, index_t element_bytes);

namespace detail {
/// 64-byte aligned memory, not initialised. Up to 64 MB of released memory are kept for reuse, see memory.hpp.
MULTIHEAD_API void* allocate(std::size_t bytes);
MULTIHEAD_API void release(void* data) noexcept;
struct Release {
  void operator()(void* data) const noexcept { release(data); }
};
}  // namespace detail

/// Tensor of rank R, filled with zeros by the constructor. It can be moved; clone() makes a copy.
template <class T, int R>
class Tensor {
 public:
  using Extents = std::array<index_t, R>;

  Tensor() = default;
  explicit Tensor(Extents shape) : Tensor(uninitialized(shape)) { std::fill_n(data(), size_, T{}); }

  /// A tensor whose elements are not initialised: they must be written before they are read.
  static Tensor uninitialized(Extents shape) {
    Tensor result;
    result.shape_ = shape;
    result.size_ = checked_size(shape.data(), R, sizeof(T));
    result.data_.reset(static_cast<T*>(detail::allocate(static_cast<std::size_t>(result.size_) * sizeof(T) + 64)));
    return result;
  }

  Tensor clone() const {
    Tensor result = uninitialized(shape_);
    std::copy_n(data(), size_, result.data());
    return result;
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  index_t size() const { return size_; }
  index_t shape(int axis) const { return shape_[axis]; }
  const Extents& shape() const { return shape_; }

  /// A tensor converts to a view, unless it is a temporary, whose view would dangle.
  TensorView<T, R> view() & { return {data_.get(), shape_}; }
  TensorView<const T, R> view() const& { return {data_.get(), shape_}; }
  TensorView<const T, R> view() const&& = delete;
  operator TensorView<T, R>() & { return view(); }
  operator TensorView<const T, R>() const& { return view(); }
  operator TensorView<const T, R>() const&& = delete;

  template <class... I>
  T& operator()(I... index) {
    return view()(index...);
  }
  template <class... I>
  const T& operator()(I... index) const {
    return view()(index...);
  }

 private:
  Extents shape_{};
  index_t size_ = 0;
  std::unique_ptr<T[], detail::Release> data_;
};

}  // namespace multihead
#pragma GCC diagnostic pop
