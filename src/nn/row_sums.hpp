// Sums along a row and down the columns, in double and in a fixed order.
#pragma once

#include "multihead/tensor_view.hpp"
#include "multihead/threads.hpp"

namespace multihead::nn {

/// Sum of term(j) over [0, count), in independent partial sums that can run side by side.
template <class Term>
double sum_of(index_t count, const Term& term) {
  constexpr int kLanes = 8;
  double lanes[kLanes] = {};
  index_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(j + lane);
  }
  for (int lane = 0; j < count; ++j, ++lane) lanes[lane] += term(j);
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

/// sums[j] += sum over n of rows[n, j]. T is float or double.
template <class T>
void add_rows(TensorView<const T, 2> rows, TensorView<T, 1> sums, Executor* threads);

}  // namespace multihead::nn
