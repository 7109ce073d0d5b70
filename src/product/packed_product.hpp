// Products with matrices that were packed before: packed_matrix.cpp.
#pragma once

#include <span>

#include "kernels/kernels.hpp"
#include "multihead/matmul.hpp"

namespace multihead {

/// c = a b^T + bias (with `accumulate`: added to c) of parts that are all packed. Nothing is checked.
/// `kernel` is of the vector width that they were packed for.
template <class T>
void multiply_packed(const kernels::Table<T>& kernel, const TensorView<const T, 2>& a,
                     std::span<const MatmulPart<T>> parts, bool accumulate, Executor* threads);

}  // namespace multihead
