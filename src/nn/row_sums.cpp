#include "nn/row_sums.hpp"

#include "kernels/training.hpp"
#include "nn/rows.hpp"

namespace multihead::nn {

template <class T>
void add_rows(TensorView<const T, 2> rows, TensorView<T, 1> sums, Executor* threads) {
  if constexpr (std::is_same_v<T, float>) {
    if (has_contiguous_rows(rows)) {
      constexpr index_t kColumns = 128;
      const auto add = kernels::training().add_to_double;
      return for_blocks(threads, sums.shape(0), kColumns, [&](index_t begin, index_t end) {
        double total[kColumns] = {};
        for (index_t n = 0; n < rows.shape(0); ++n) add(&rows(n, begin), total, end - begin);
        for (index_t j = begin; j < end; ++j) sums(j) += static_cast<T>(total[j - begin]);
      });
    }
  }
  add_column_sums(threads, rows.shape(0), sums, [&](index_t n, index_t j) { return rows(n, j); });
}

template void add_rows(TensorView<const float, 2>, TensorView<float, 1>, Executor*);
template void add_rows(TensorView<const double, 2>, TensorView<double, 1>, Executor*);

}  // namespace multihead::nn
