// Scratch memory of a call: one part for each worker, 64-byte aligned.
#pragma once

#include <memory>

#include "core/ceil_div.hpp"
#include "multihead/tensor.hpp"

namespace multihead {

template <class T>
class Workspace {
 public:
  /// Not initialised: kernels write before they read.
  Workspace(index_t num_parts, index_t part_size)
      : part_size_(round_up(part_size, 64 / index_t{sizeof(T)}) + 64 / index_t{sizeof(T)}) {
    // No padding after the last part: tests place an inaccessible page there.
    const auto bytes = static_cast<std::size_t>((num_parts - 1) * part_size_ + part_size) * sizeof(T);
    data_.reset(static_cast<T*>(detail::allocate(bytes)));
  }
  T* part(index_t index) const { return data_.get() + index * part_size_; }

 private:
  index_t part_size_;
  std::unique_ptr<T[], detail::Release> data_;
};

}  // namespace multihead
