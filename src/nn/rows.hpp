// Work on the rows of [n, features] views: shape checks, and the distribution of rows over threads.
#pragma once

#include <algorithm>

#include "core/ceil_div.hpp"
#include "core/require.hpp"
#include "multihead/tensor_view.hpp"
#include "multihead/threads.hpp"

namespace multihead::nn {

template <class T, int R>
GotShape text_of(const TensorView<T, R>& view) {
  return view ? GotShape(view.shape().data(), R) : GotShape();
}

/// Whether each row of a view is contiguous.
template <class T>
bool has_contiguous_rows(const TensorView<T, 2>& view) {
  return view.shape(1) <= 1 || view.stride(1) == 1;
}

/// Calls work(begin, end) for blocks of [0, count). Blocks depend only on `count` and `per_task`, so sums over a block
/// are the same for any number of threads.
template <class Work>
void for_blocks(Executor* threads, index_t count, index_t per_task, const Work& work) {
  const index_t num_tasks = ceil_div(count, per_task);
  run_tasks(threads, num_tasks,
            [&](index_t task, int) { work(task * per_task, std::min(count, (task + 1) * per_task)); });
}

/// sums[j] += sum over n of term(n, j), each sum in order of n, in double.
template <class T, class Term>
void add_column_sums(Executor* threads, index_t num_rows, TensorView<T, 1> sums, const Term& term) {
  constexpr index_t kColumns = 64;
  for_blocks(threads, sums.shape(0), kColumns, [&](index_t begin, index_t end) {
    double total[kColumns] = {};
    for (index_t n = 0; n < num_rows; ++n) {
      for (index_t j = begin; j < end; ++j) total[j - begin] += term(n, j);
    }
    for (index_t j = begin; j < end; ++j) sums(j) += static_cast<T>(total[j - begin]);
  });
}

}  // namespace multihead::nn
