// Products with matrices that were packed before: packed_matrix.cpp.
#pragma once

#include <span>

#include "multihead/matmul.hpp"

namespace multihead {

/// c = a b^T + bias (with `accumulate`: added to c) of parts that are all packed. Nothing is checked.
template <class T>
void multiply_packed(const TensorView<const T, 2>& a, std::span<const MatmulPart<T>> parts, bool accumulate,
                     Executor* threads);

}  // namespace multihead
