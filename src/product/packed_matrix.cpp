// Products with a packed matrix: its panels fill the lanes, elements of the other matrix are broadcast, and results are
// stored as rows. Panels are streamed past a block of rows that stays in the L2 cache, and each prefetches the next.

#include "multihead/packed_matrix.hpp"

#include <algorithm>
#include <vector>

#include "core/ceil_div.hpp"
#include "kernels/kernels.hpp"
#include "product/packed_product.hpp"
#include "product/panels.hpp"

namespace multihead {
namespace {

constexpr index_t kRowsBytes = 256 * 1024;  // a block of rows: half of an L2 cache (docs/ladder.md)

template <class T>
Panels panels_of(const kernels::Table<T>& kernel, index_t num_rows) {
  return {num_rows, kernel.lanes, kernel.vector_lanes};
}

/// Panels [first, last) of a part.
template <class T>
struct Strip {
  const MatmulPart<T>* part;
  index_t first, last;
};

/// Divides the panels of all parts into about `count` strips.
template <class T>
std::vector<Strip<T>> strips_of(const kernels::Table<T>& kernel, std::span<const MatmulPart<T>> parts, index_t count) {
  const auto panels_in = [&](const MatmulPart<T>& part) { return panels_of(kernel, part.packed->rows()).count; };
  index_t total = 0;
  for (const MatmulPart<T>& part : parts) total += panels_in(part);
  std::vector<Strip<T>> strips;
  for (const MatmulPart<T>& part : parts) {
    const index_t panels = panels_in(part);
    const index_t of_part = panels == 0 ? 0 : std::clamp<index_t>(count * panels / total, 1, panels);
    for (index_t s = 0; s < of_part; ++s) {
      strips.push_back({&part, s * panels / of_part, (s + 1) * panels / of_part});
    }
  }
  return strips;
}

/// Divides rows into equal blocks, which are whole register blocks on any target.
template <class T>
index_t rows_per_block(index_t num_rows, index_t depth) {
  constexpr index_t kWhole = 8;
  const index_t most = std::max(kWhole, kRowsBytes / (depth * index_t{sizeof(T)}));
  const index_t num_blocks = ceil_div(num_rows, most);
  return round_up(ceil_div(num_rows, num_blocks), kWhole);
}

/// Columns [k, k + depth) of rows [row, row + num_rows) against a strip.
template <class T>
void multiply(const kernels::Table<T>& kernel, const TensorView<const T, 2>& a, const Strip<T>& strip, index_t row,
              index_t num_rows, index_t k, index_t depth, bool accumulate) {
  const MatmulPart<T>& part = *strip.part;
  const index_t n = part.packed->rows(), num_k = part.packed->columns();
  const Panels panels = panels_of(kernel, n);
  for (index_t p = strip.first; p < strip.last; ++p) {
    const index_t lane = panels.begin(p), lanes = panels.lanes(p);
    const T* const panel = part.packed->data() + lane * num_k;
    kernel.matmul_panel({.a = &a(row, k),
                         .a_row = a.stride(0),
                         .a_k = a.stride(1),
                         .panel = panel + k * lanes,
                         .lanes = lanes,
                         .next = panel + lanes * num_k + k * lanes,
                         .bias = part.bias && k == 0 ? &part.bias(lane) : nullptr,
                         .bias_row = 0,
                         .bias_lane = part.bias.stride(0),
                         .c = &part.c(row, lane),
                         .c_row = part.c.stride(0),
                         .c_lane = 1,
                         .accumulate = accumulate || k > 0,
                         .num_rows = num_rows,
                         .num_lanes = panels.live(p, n),
                         .num_k = depth});
  }
}

}  // namespace

template <class T>
PackedMatrix<T>::PackedMatrix(TensorView<const T, 2> b, Executor* threads) : num_rows_(b.shape(0)), num_k_(b.shape(1)) {
  const kernels::Table<T>& kernel = kernels::table<T>();
  vector_lanes_ = kernel.vector_lanes;
  const Panels panels = panels_of(kernel, num_rows_);
  panels_ = Tensor<T, 1>({panels.vectors * vector_lanes_ * num_k_});
  run_tasks(threads, num_k_ == 0 ? 0 : panels.count, [&](index_t p, int) {
    kernel.pack_panel({.rows = &b(panels.begin(p), 0),
                       .row_stride = b.stride(0),
                       .k_stride = b.stride(1),
                       .num_rows = panels.live(p, num_rows_),
                       .num_k = num_k_,
                       .lanes = panels.lanes(p),
                       .panel = panels_.data() + panels.begin(p) * num_k_});
  });
}

template <class T>
void multiply_packed(const kernels::Table<T>& kernel, const TensorView<const T, 2>& a,
                     std::span<const MatmulPart<T>> parts, bool accumulate, Executor* threads) {
  const index_t m = a.shape(0), num_k = a.shape(1);
  const index_t depth = std::clamp<index_t>(num_k, 1, kPanelDepth);
  const index_t rows = rows_per_block<T>(m, depth), num_blocks = ceil_div(m, rows);
  const index_t wanted = threads ? kProductTasksPerWorker * num_workers(threads) : 1;
  const std::vector<Strip<T>> strips = strips_of(kernel, parts, wanted / num_blocks);
  const auto num_strips = static_cast<index_t>(strips.size());
  for (index_t k = 0; k == 0 || k < num_k; k += depth) {
    run_tasks(threads, num_blocks * num_strips, [&](index_t task, int) {
      const index_t row = task / num_strips * rows;
      multiply(kernel, a, strips[static_cast<std::size_t>(task % num_strips)], row, std::min(rows, m - row), k,
               std::min(depth, num_k - k), accumulate);
    });
  }
}

template class PackedMatrix<float>;
template class PackedMatrix<double>;
template void multiply_packed(const kernels::Table<float>&, const TensorView<const float, 2>&,
                              std::span<const MatmulPart<float>>, bool, Executor*);
template void multiply_packed(const kernels::Table<double>&, const TensorView<const double, 2>&,
                              std::span<const MatmulPart<double>>, bool, Executor*);

}  // namespace multihead
