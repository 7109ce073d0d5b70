// The projection product: panels of b are packed once a task and meet all rows of a in the micro-kernel.

#include "multihead/matmul.hpp"

#include <algorithm>

#include "attention/workspace.hpp"
#include "core/require.hpp"
#include "kernels/kernels.hpp"

namespace multihead {
namespace {

// Depth of a packed panel: 256 x 24 f32 are 24 KB, which leaves room for rows of a in an L1 of 32 KB.
constexpr index_t kDepth = 256;
constexpr index_t kTasksPerWorker = 4;
// A panel is packed anew for each block of rows; packing costs about as much as 8 rows.
constexpr index_t kMinRows = 128;

template <class T>
void check(const TensorView<const T, 2>& a, const TensorView<const T, 2>& b, const TensorView<T, 2>& c,
           const MatmulOptions<T>& options) {
  const auto text = [](const auto& view) { return shape_text(view.shape().data(), 2); };
  require(a.shape(1) == b.shape(1), "matmul", "a [m, k] and b [n, k] must agree in k",
          {{"a", text(a)}, {"b", text(b)}});
  require(c.shape(0) == a.shape(0) && c.shape(1) == b.shape(0), "matmul", "c must be [m, n]",
          {{"a", text(a)}, {"b", text(b)}, {"c", text(c)}});
  require(c.shape(1) <= 1 || c.stride(1) == 1, "matmul", "the last axis of c must be contiguous",
          {{"stride", c.stride(1)}});
  require(!options.bias || options.bias.shape(0) == c.shape(1), "matmul", "bias must be [n]",
          {{"bias", options.bias.shape(0)}, {"n", c.shape(1)}});
}

/// One panel of b: columns [n, n + count) of c, rows [begin, end).
template <class T>
struct Panel {
  const TensorView<const T, 2>& a;
  const TensorView<const T, 2>& b;
  const TensorView<T, 2>& c;
  const MatmulOptions<T>& options;
  const kernels::Table<T>& kernel;

  void run(index_t n, index_t count, index_t begin, index_t end, T* panel) const {
    for (index_t m = begin; m < end; ++m) start_row(c.data() + m * c.stride(0) + n, n, count);
    for (index_t k = 0; k < a.shape(1); k += kDepth) {
      const index_t depth = std::min(kDepth, a.shape(1) - k);
      kernel.pack_panel({.b = b.data() + n * b.stride(0) + k * b.stride(1),
                         .n_stride = b.stride(0),
                         .k_stride = b.stride(1),
                         .n = count,
                         .k = depth,
                         .panel = panel});
      kernel.matmul_panel({.a = a.data() + begin * a.stride(0) + k * a.stride(1),
                           .a_row = a.stride(0),
                           .a_k = a.stride(1),
                           .b = panel,
                           .c = c.data() + begin * c.stride(0) + n,
                           .c_row = c.stride(0),
                           .m = end - begin,
                           .n = count,
                           .k = depth});
    }
  }

  /// What the sums are added to: bias, 0, or what c holds.
  void start_row(T* row, index_t n, index_t count) const {
    if (!options.accumulate) std::fill_n(row, count, T{0});
    for (index_t j = 0; options.bias && j < count; ++j) row[j] += options.bias(n + j);
  }
};

template <class T>
void run(const TensorView<const T, 2>& a, const TensorView<const T, 2>& b, const TensorView<T, 2>& c,
         const MatmulOptions<T>& options) {
  check(a, b, c, options);
  const index_t m = c.shape(0), n = c.shape(1);
  if (m == 0 || n == 0) return;
  const kernels::Table<T>& kernel = kernels::table<T>();
  const index_t panels = (n + kernel.lanes - 1) / kernel.lanes;
  const index_t workers = num_workers(options.threads);
  const index_t blocks_wanted = workers == 1 ? 1 : (kTasksPerWorker * workers + panels - 1) / panels;
  const index_t rows = std::max((m + blocks_wanted - 1) / blocks_wanted, std::min(m, kMinRows));
  const index_t blocks = (m + rows - 1) / rows;
  const Workspace<T> workspace(workers, kDepth * kernel.lanes);
  const Panel<T> panel{a, b, c, options, kernel};
  run_tasks(options.threads, panels * blocks, [&](index_t task, int worker) {
    const index_t first = task % panels * kernel.lanes, begin = task / panels * rows;
    panel.run(first, std::min(kernel.lanes, n - first), begin, std::min(m, begin + rows), workspace.part(worker));
  });
}

}  // namespace

void matmul(TensorView<const float, 2> a, TensorView<const float, 2> b, TensorView<float, 2> c,
            const MatmulOptions<float>& options) {
  run(a, b, c, options);
}

void matmul(TensorView<const double, 2> a, TensorView<const double, 2> b, TensorView<double, 2> c,
            const MatmulOptions<double>& options) {
  run(a, b, c, options);
}

}  // namespace multihead
