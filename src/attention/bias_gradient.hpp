// dbias, reduced over the axes along which the bias is broadcast.
#pragma once

#include <functional>

#include "attention/problem.hpp"

namespace multihead {

/// A pass of its own: each task owns one block of dbias and goes through all (b, h, i, j) that the block stands for, in
/// order, so nothing is shared and the bits do not depend on threads. It recomputes two products of five.
/// `args_of(b, g)` gives the arguments of the backward kernels.
template <class T>
void bias_gradient(const Problem& problem, const HeadGroups& groups, const OutputView<4>& dbias,
                   const std::function<kernels::BackwardArgs<T>(index_t b, index_t g)>& args_of);

}  // namespace multihead
