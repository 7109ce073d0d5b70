// A copy of a matrix in the memory order in which matmul reads it.
#pragma once

#include "multihead/tensor.hpp"
#include "multihead/tensor_view.hpp"
#include "multihead/threads.hpp"

namespace multihead {

/// b [n, k] packed once for many products a b^T: a copy of n*k numbers, n rounded up to whole vectors. T is float or
/// double. Products are bit-identical to those of b, and faster, the more so the fewer rows a has.
template <class T>
class MULTIHEAD_API PackedMatrix {
 public:
  PackedMatrix() = default;  ///< empty: converts to false
  /// @param b  [n, k], any strides; not kept
  explicit PackedMatrix(TensorView<const T, 2> b, Executor* threads = nullptr);

  explicit operator bool() const { return panels_.data() != nullptr; }
  index_t rows() const { return num_rows_; }              ///< n
  index_t columns() const { return num_k_; }              ///< k
  const T* data() const { return panels_.data(); }        ///< consecutive panels, each [k][lanes]
  index_t vector_lanes() const { return vector_lanes_; }  ///< elements in a vector of the kernels it was packed for

 private:
  index_t num_rows_ = 0, num_k_ = 0, vector_lanes_ = 0;
  Tensor<T, 1> panels_;
};

}  // namespace multihead
