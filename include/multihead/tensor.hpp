// An owning, contiguous, 64-byte aligned array.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <new>

#include "multihead/error.hpp"
#include "multihead/tensor_view.hpp"

namespace multihead {

/// Product of non-negative extents; throws ShapeError if one is negative or the product or its bytes overflow.
index_t checked_size(const index_t* shape, int rank, index_t element_bytes);

namespace detail {
struct AlignedDelete {
  void operator()(void* p) const { ::operator delete (p, std::align_val_t{64}); }
};
}  // namespace detail

/// Tensor of rank R, zero-filled when made. Moves; a copy is asked for by clone().
template <class T, int R>
class Tensor {
 public:
  using Extents = std::array<index_t, R>;

  Tensor() = default;
  explicit Tensor(Extents shape) : shape_(shape), size_(checked_size(shape.data(), R, sizeof(T))) {
    data_.reset(
        static_cast<T*>(::operator new (static_cast<std::size_t>(size_) * sizeof(T) + 64, std::align_val_t{64})));
    std::fill_n(data_.get(), size_, T{});
  }

  Tensor clone() const {
    Tensor result(shape_);
    std::copy_n(data(), size_, result.data());
    return result;
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  index_t size() const { return size_; }
  index_t shape(int axis) const { return shape_[axis]; }
  const Extents& shape() const { return shape_; }

  TensorView<T, R> view() { return {data_.get(), shape_}; }
  TensorView<const T, R> view() const { return {data_.get(), shape_}; }
  operator TensorView<T, R>() { return view(); }
  operator TensorView<const T, R>() const { return view(); }

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
  std::unique_ptr<T[], detail::AlignedDelete> data_;
};

}  // namespace multihead
