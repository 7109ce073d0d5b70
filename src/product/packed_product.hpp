// Products with matrices that were packed before, implemented in packed_matrix.cpp.
#pragma once

#include <span>

#include "kernels/kernels.hpp"
#include "multihead/matmul.hpp"

namespace multihead {

/// c = a b^T + bias (with `accumulate`: added to c) for parts that are all packed. Arguments are not checked. `kernel`
/// must have the vector width that they were packed for.
template <class T>
void multiply_packed(const kernels::Table<T>& kernel, const TensorView<const T, 2>& a,
                     std::span<const MatmulPart<T>> parts, bool accumulate, Executor* threads);

}  // namespace multihead
