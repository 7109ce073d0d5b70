// The projection product, on the same micro-kernel as attention.
//
//   c[m,n] = sum_k a[m,k] * b[n,k] + bias[n]        (with `accumulate`: added to what c holds)
//
// b is [n, k], as weights [out_features, in_features] lie: y = x W^T. Any strides: pass b.permute({1, 0}) for x W.
#pragma once

#include <span>

#include "multihead/packed_matrix.hpp"
#include "multihead/tensor.hpp"
#include "multihead/tensor_view.hpp"
#include "multihead/threads.hpp"

namespace multihead {

template <class T>
struct MatmulOptions {
  TensorView<const T, 1> bias = {};  ///< [n]; absent = 0
  bool accumulate = false;
  const PackedMatrix<T>* packed = nullptr;  ///< b packed earlier, read in its place; null or empty = b itself
  Executor* threads = nullptr;              ///< the result is the same bits for any
};

/// T is float or double. a [m, k] and b [n, k] with any strides; c [m, n] with a contiguous last axis.
///
/// @throws ShapeError  if extents disagree (packed's with b's too), or c's last axis is not contiguous; before anything
///         is written
///
/// Cost    2*m*n*k flops.
/// Memory  at most 256 KB, or one panel where k makes that larger; none with a packed b.
MULTIHEAD_API void matmul(TensorView<const float, 2> a, TensorView<const float, 2> b, TensorView<float, 2> c,
                          const MatmulOptions<float>& options = {});
MULTIHEAD_API void matmul(TensorView<const double, 2> a, TensorView<const double, 2> b, TensorView<double, 2> c,
                          const MatmulOptions<double>& options = {});

/// One of several products of the same a.
template <class T>
struct MatmulPart {
  TensorView<const T, 2> b;                 ///< [n, k]
  TensorView<T, 2> c;                       ///< [m, n], last axis contiguous
  TensorView<const T, 1> bias = {};         ///< [n]; absent = 0
  const PackedMatrix<T>* packed = nullptr;  ///< as in MatmulOptions
};

/// Each part as matmul would, bit for bit; a is packed for the kernel once.
MULTIHEAD_API void matmul(TensorView<const float, 2> a, std::span<const MatmulPart<float>> parts,
                          Executor* threads = nullptr);
MULTIHEAD_API void matmul(TensorView<const double, 2> a, std::span<const MatmulPart<double>> parts,
                          Executor* threads = nullptr);

}  // namespace multihead
