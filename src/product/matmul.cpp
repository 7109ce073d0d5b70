// Matrix products as in projections. One matrix is packed into panels of lanes, and elements of the other are
// broadcast.
//
// The matrix is packed that causes less memory traffic: b, or, if there are few tokens, a, in which case results are
// transposed when they are stored. Products with matrices that were packed before go to multiply_packed. In all cases
// an element of c is one sum in the order of k.

#include "multihead/matmul.hpp"

#include <algorithm>
#include <vector>

#include "core/ceil_div.hpp"
#include "core/require.hpp"
#include "core/workspace.hpp"
#include "kernels/kernels.hpp"
#include "product/packed_product.hpp"
#include "product/panels.hpp"

namespace multihead {
namespace {

// Measured in docs/ladder.md, "Layer and projections".
constexpr index_t kPackedBytes = 256 * 1024;  // panels that are packed at a time: half of an L2 cache
constexpr index_t kRowsPerTask = 48;          // rows that are multiplied with these panels at a time
constexpr double kWorthThreads = 2e6;         // flops: about 20 microseconds

template <class T>
void check(const TensorView<const T, 2>& a, const MatmulPart<T>& part) {
  const auto text = [](const auto& view) { return GotShape(view.shape().data(), 2); };
  const auto& [b, c, bias, packed] = part;
  require(a.shape(1) == b.shape(1), "matmul", "a [m, k] and b [n, k] must agree in k",
          {{"a", text(a)}, {"b", text(b)}});
  require(c.shape(0) == a.shape(0) && c.shape(1) == b.shape(0), "matmul", "c must be [m, n]",
          {{"a", text(a)}, {"b", text(b)}, {"c", text(c)}});
  require(c.shape(1) <= 1 || c.stride(1) == 1, "matmul", "the last axis of c must be contiguous",
          {{"stride", c.stride(1)}});
  require(!bias || bias.shape(0) == c.shape(1), "matmul", "bias must be [n]",
          {{"bias", bias.shape(0)}, {"n", c.shape(1)}});
  if (packed == nullptr || !*packed) return;
  const index_t got[2] = {packed->rows(), packed->columns()};
  require(got[0] == b.shape(0) && got[1] == b.shape(1), "matmul", "packed must be of b [n, k]",
          {{"packed", GotShape(got, 2)}, {"b", text(b)}});
}

/// Whether b of a part is packed for the vector width of the kernels in use.
template <class T>
bool is_packed(const kernels::Table<T>& kernel, const MatmulPart<T>& part) {
  return part.packed != nullptr && *part.packed && part.packed->vector_lanes() == kernel.vector_lanes;
}

/// Products whose packed matrix is `lanes` [num_lanes, k]: a, multiplied with the rows of b of each part; or b of the
/// only part, multiplied with the rows of a.
template <class T>
class PackingProduct {
 public:
  PackingProduct(const TensorView<const T, 2>& a, std::span<const MatmulPart<T>> parts, bool packs_a, bool accumulate,
                 Executor* threads)
      : a_(a),
        parts_(parts),
        packs_a_(packs_a),
        accumulate_(accumulate),
        lanes_(packs_a ? a : parts[0].b),
        threads_(threads),
        panels_(lanes_.shape(0), kernel_.lanes, kernel_.vector_lanes) {
    for (const MatmulPart<T>& part : parts) {
      for (index_t row = 0; row < rows_of(part).shape(0); row += kRowsPerTask) blocks_.push_back({&part, row});
    }
  }

  void run() const {
    const index_t num_k = a_.shape(1), depth = std::clamp<index_t>(num_k, 1, kPanelDepth);
    const index_t panel_bytes = kernel_.lanes * depth * index_t{sizeof(T)};
    const index_t at_a_time = std::clamp<index_t>(kPackedBytes / panel_bytes, 1, panels_.count);
    const index_t rounds = ceil_div(panels_.count, at_a_time);
    const Workspace<T> packed(1, ceil_div(panels_.count, rounds) * kernel_.lanes * depth);
    for (index_t k = 0; k == 0 || k < num_k; k += depth) {
      for (index_t round = 0; round < rounds; ++round) {
        const Range range{round * panels_.count / rounds, (round + 1) * panels_.count / rounds, k,
                          std::min(depth, num_k - k), packed.part(0)};
        pack(range);
        multiply(range);
      }
    }
  }

 private:
  struct Block {
    const MatmulPart<T>* part;
    index_t row;
  };
  /// Panels [first, last), columns [k, k + depth), and the memory they are packed in.
  struct Range {
    index_t first, last, k, depth;
    T* packed;
  };

  const TensorView<const T, 2>& rows_of(const MatmulPart<T>& part) const { return packs_a_ ? part.b : a_; }
  T* place_of(const Range& range, index_t panel) const {
    return range.packed + (panels_.begin(panel) - panels_.begin(range.first)) * range.depth;
  }

  void pack(const Range& range) const {
    run_tasks(threads_, range.last - range.first, [&](index_t task, int) {
      const index_t panel = range.first + task;
      kernel_.pack_panel({.rows = &lanes_(panels_.begin(panel), range.k),
                          .row_stride = lanes_.stride(0),
                          .k_stride = lanes_.stride(1),
                          .num_rows = panels_.live(panel, lanes_.shape(0)),
                          .num_k = range.depth,
                          .lanes = panels_.lanes(panel),
                          .panel = place_of(range, panel)});
    });
  }

  void multiply(const Range& range) const {
    const index_t num_blocks = static_cast<index_t>(blocks_.size()), count = range.last - range.first;
    const index_t wanted = threads_ ? kProductTasksPerWorker * num_workers(threads_) : 1;
    const index_t groups = std::clamp<index_t>(wanted / num_blocks, 1, count);
    run_tasks(threads_, num_blocks * groups, [&](index_t task, int) {
      const Block& block = blocks_[static_cast<std::size_t>(task / groups)];
      const index_t begin = task % groups * count / groups, end = (task % groups + 1) * count / groups;
      for (index_t p = begin; p < end; ++p) multiply(block, range, range.first + p);
    });
  }

  void multiply(const Block& block, const Range& range, index_t panel) const {
    const TensorView<T, 2>& c = block.part->c;
    const TensorView<const T, 1>& bias = block.part->bias;
    const TensorView<const T, 2>& rows = rows_of(*block.part);
    const index_t row = block.row, lane = panels_.begin(panel);
    const bool with_bias = bias && range.k == 0;
    kernel_.matmul_panel({.a = &rows(row, range.k),
                          .a_row = rows.stride(0),
                          .a_k = rows.stride(1),
                          .panel = place_of(range, panel),
                          .lanes = panels_.lanes(panel),
                          .bias = with_bias ? &bias(packs_a_ ? row : lane) : nullptr,
                          .bias_row = packs_a_ ? bias.stride(0) : 0,
                          .bias_lane = packs_a_ ? 0 : bias.stride(0),
                          .c = packs_a_ ? &c(lane, row) : &c(row, lane),
                          .c_row = packs_a_ ? 1 : c.stride(0),
                          .c_lane = packs_a_ ? c.stride(0) : 1,
                          .accumulate = accumulate_ || range.k > 0,
                          .num_rows = std::min(kRowsPerTask, rows.shape(0) - row),
                          .num_lanes = panels_.live(panel, lanes_.shape(0)),
                          .num_k = range.depth});
  }

  const kernels::Table<T>& kernel_ = kernels::table<T>();
  const TensorView<const T, 2> a_;
  const std::span<const MatmulPart<T>> parts_;
  const bool packs_a_, accumulate_;
  const TensorView<const T, 2> lanes_;
  Executor* const threads_;
  const Panels panels_;
  std::vector<Block> blocks_;  // rows that are multiplied with the panels, in order
};

/// Products of parts none of which is packed.
template <class T>
void multiply(const TensorView<const T, 2>& a, std::span<const MatmulPart<T>> parts, bool accumulate,
              Executor* threads) {
  index_t n = 0;
  for (const MatmulPart<T>& part : parts) n += part.c.shape(1);
  const index_t m = a.shape(0), k = a.shape(1);
  if (m * (k + n) < n * k) {
    PackingProduct<T>(a, parts, true, accumulate, threads).run();
  } else {
    for (const MatmulPart<T>& part : parts) {
      if (part.c.shape(1) > 0) PackingProduct<T>(a, {&part, 1}, false, accumulate, threads).run();
    }
  }
}

template <class T>
void run(const TensorView<const T, 2>& a, std::span<const MatmulPart<T>> parts, bool accumulate, Executor* threads) {
  index_t n = 0;
  std::vector<MatmulPart<T>> packed, others;
  const kernels::Table<T>& kernel = kernels::table<T>();
  for (const MatmulPart<T>& part : parts) {
    check(a, part);
    n += part.c.shape(1);
    (is_packed(kernel, part) ? packed : others).push_back(part);
  }
  if (a.shape(0) == 0 || n == 0) return;
  const double flops = 2.0 * static_cast<double>(a.shape(0)) * static_cast<double>(n) * static_cast<double>(a.shape(1));
  if (flops < kWorthThreads) threads = nullptr;
  if (!packed.empty()) multiply_packed<T>(kernel, a, packed, accumulate, threads);
  if (!others.empty()) multiply<T>(a, others, accumulate, threads);
}

template <class T>
void run(const TensorView<const T, 2>& a, const TensorView<const T, 2>& b, const TensorView<T, 2>& c,
         const MatmulOptions<T>& options) {
  const MatmulPart<T> part{b, c, options.bias, options.packed};
  run<T>(a, {&part, 1}, options.accumulate, options.threads);
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

void matmul(TensorView<const float, 2> a, std::span<const MatmulPart<float>> parts, Executor* threads) {
  run(a, parts, false, threads);
}

void matmul(TensorView<const double, 2> a, std::span<const MatmulPart<double>> parts, Executor* threads) {
  run(a, parts, false, threads);
}

}  // namespace multihead
