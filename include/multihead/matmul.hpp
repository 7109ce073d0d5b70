// Matrix products as in projections, computed by the same micro-kernel as attention.
//
//   c[m,n] = sum_k a[m,k] * b[n,k] + bias[n]        (with `accumulate`: added to c)
//
// b is [n, k] like weights [out_features, in_features], so that y = x W^T. For x W pass W.permute({1, 0}) as b.
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
  const PackedMatrix<T>* packed = nullptr;  ///< packed copy to read instead of b; null or empty = read b
  Executor* threads = nullptr;              ///< results are bit-identical for any
};

/// T is float or double. a [m, k] and b [n, k] with any strides; c [m, n] with a contiguous last axis.
///
/// @throws ShapeError  before anything is written: if extents disagree, also between `packed` and b, or the last axis
///         of c is not contiguous
///
/// Cost    2*m*n*k flops.
/// Memory  at most 256 KB, or one panel of k rows if that is larger; none with a packed b.
MULTIHEAD_API void matmul(TensorView<const float, 2> a, TensorView<const float, 2> b, TensorView<float, 2> c,
                          const MatmulOptions<float>& options = {});
MULTIHEAD_API void matmul(TensorView<const double, 2> a, TensorView<const double, 2> b, TensorView<double, 2> c,
                          const MatmulOptions<double>& options = {});

/// One of several products with the same a.
template <class T>
struct MatmulPart {
  TensorView<const T, 2> b;                 ///< [n, k]
  TensorView<T, 2> c;                       ///< [m, n], last axis contiguous
  TensorView<const T, 1> bias = {};         ///< [n]; absent = 0
  const PackedMatrix<T>* packed = nullptr;  ///< as in MatmulOptions
};

/// Several products that read a only once. Results are bit-identical to one matmul for each part.
MULTIHEAD_API void matmul(TensorView<const float, 2> a, std::span<const MatmulPart<float>> parts,
                          Executor* threads = nullptr);
MULTIHEAD_API void matmul(TensorView<const double, 2> a, std::span<const MatmulPart<double>> parts,
                          Executor* threads = nullptr);

}  // namespace multihead
