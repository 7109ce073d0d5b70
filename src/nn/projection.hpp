// y = x W^T + b over all tokens of [B, S, width], and its gradients.
#pragma once

#include <span>

#include "multihead/packed_matrix.hpp"
#include "multihead/tensor.hpp"
#include "multihead/tensor_view.hpp"
#include "multihead/threads.hpp"

namespace multihead::nn {

/// A view of the tensor; absent if the tensor has no data.
template <class T, int R>
TensorView<const T, R> view_of(const Tensor<T, R>& tensor) {
  return tensor.data() ? tensor.view() : TensorView<const T, R>();
}

/// One y = x W^T + b.
template <class T>
struct Projection {
  TensorView<const T, 3> x;       ///< [B, S, in], any strides
  const Tensor<T, 2>& w;          ///< [out, in]
  const Tensor<T, 1>& b;          ///< [out], or without data
  TensorView<T, 3> y;             ///< [B, S, out], last axis contiguous
  const PackedMatrix<T>& packed;  ///< w, or empty
};

/// Consecutive projections of the same tokens are computed together.
template <class T>
void project(std::span<const Projection<T>> projections, Executor* threads);

/// Gradients of project. Absent dx, null dw and db are not computed.
template <class T>
struct ProjectionGradients {
  TensorView<T, 3> dx = {};    ///< [B, S, in], last axis contiguous
  bool accumulate_dx = false;  ///< false: overwritten
  Tensor<T, 2>* dw = nullptr;  ///< [out, in], added to
  Tensor<T, 1>* db = nullptr;  ///< [out], added to
};

template <class T>
void project_backward(TensorView<const T, 3> x, const Tensor<T, 2>& w, TensorView<const T, 3> dy,
                      const ProjectionGradients<T>& gradients, Executor* threads);

}  // namespace multihead::nn
