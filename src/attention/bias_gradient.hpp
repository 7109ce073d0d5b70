// dbias, equation (11) of docs/algorithm.md, summed over the axes along which the bias is broadcast.
#pragma once

#include <functional>

#include "attention/problem.hpp"

namespace multihead {

/// A separate pass: each task owns one block of dbias and visits all (b, h, i, j) that contribute to it in order. Tasks
/// share nothing, so results do not depend on threads. Repeats two of the five products of the backward: (1) and (7).
/// `args_of(b, g)` gives the arguments of the backward kernels.
template <class T>
void bias_gradient(const Problem& problem, const HeadGroups& groups, const OutputView<4>& dbias,
                   const std::function<kernels::BackwardArgs<T>(index_t b, index_t g)>& args_of);

}  // namespace multihead
