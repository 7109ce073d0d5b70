#include "nn/projection.hpp"

#include <algorithm>
#include <vector>

#include "multihead/matmul.hpp"
#include "nn/row_sums.hpp"
#include "nn/rows.hpp"

namespace multihead::nn {
namespace {

// All tokens as the rows of one matrix if the strides allow it, otherwise one matrix per sequence.
template <class T>
bool is_one_matrix(TensorView<T, 3> x) {
  return x.shape(0) == 1 || x.stride(0) == x.shape(1) * x.stride(1);
}

template <class T>
TensorView<T, 2> as_matrix(TensorView<T, 3> x) {
  return {x.data(), {x.shape(0) * x.shape(1), x.shape(2)}, {x.stride(1), x.stride(2)}};
}

// Calls run(a, c) with the token rows of both, once or once per sequence.
template <class A, class C, class Run>
void for_rows(TensorView<A, 3> a, TensorView<C, 3> c, Run&& run) {
  if (is_one_matrix(a) && is_one_matrix(c)) return run(as_matrix(a), as_matrix(c));
  for (index_t b = 0; b < a.shape(0); ++b) run(a[b], c[b]);
}

}  // namespace

template <class T>
void project(std::span<const Projection<T>> projections, Executor* threads) {
  const auto same_tokens = [](const Projection<T>& one, const Projection<T>& other) {
    return one.x.data() == other.x.data() && one.x.shape() == other.x.shape() && one.x.stride() == other.x.stride();
  };
  for (auto first = projections.begin(), last = first; first != projections.end(); first = last) {
    last = std::find_if(first, projections.end(), [&](const auto& other) { return !same_tokens(*first, other); });
    const bool whole =
        is_one_matrix(first->x) && std::all_of(first, last, [](const auto& p) { return is_one_matrix(p.y); });
    std::vector<MatmulPart<T>> parts(static_cast<std::size_t>(last - first));
    for (index_t b = 0; b < (whole ? 1 : first->x.shape(0)); ++b) {
      std::transform(first, last, parts.begin(), [&](const Projection<T>& p) {
        return MatmulPart<T>{p.w.view(), whole ? as_matrix(p.y) : p.y[b], view_of(p.b), &p.packed};
      });
      matmul(whole ? as_matrix(first->x) : first->x[b], parts, threads);
    }
  }
}

template <class T>
void project_backward(TensorView<const T, 3> x, const Tensor<T, 2>& w, TensorView<const T, 3> dy,
                      const ProjectionGradients<T>& gradients, Executor* threads) {
  if (gradients.dx) {
    for_rows(dy, gradients.dx, [&](TensorView<const T, 2> drows, TensorView<T, 2> dx) {
      matmul(drows, w.view().permute({1, 0}), dx, {.accumulate = gradients.accumulate_dx, .threads = threads});
    });
  }
  if (gradients.dw && gradients.dw->data()) {
    for_rows(dy, x, [&](TensorView<const T, 2> drows, TensorView<const T, 2> rows) {
      matmul(drows.permute({1, 0}), rows.permute({1, 0}), gradients.dw->view(),
             {.accumulate = true, .threads = threads});
    });
  }
  if (gradients.db && gradients.db->data()) {
    if (is_one_matrix(dy)) {
      add_rows<T>(as_matrix(dy), gradients.db->view(), threads);
    } else {
      const index_t seqlen = dy.shape(1);
      add_column_sums(threads, dy.shape(0) * seqlen, gradients.db->view(),
                      [&](index_t n, index_t j) { return dy(n / seqlen, n % seqlen, j); });
    }
  }
}

template void project(std::span<const Projection<float>>, Executor*);
template void project(std::span<const Projection<double>>, Executor*);
template void project_backward(TensorView<const float, 3>, const Tensor<float, 2>&, TensorView<const float, 3>,
                               const ProjectionGradients<float>&, Executor*);
template void project_backward(TensorView<const double, 3>, const Tensor<double, 2>&, TensorView<const double, 3>,
                               const ProjectionGradients<double>&, Executor*);

}  // namespace multihead::nn
