#include "multihead/matmul.hpp"

#include "core/require.hpp"

namespace multihead {
namespace {

template <class T>
void plain(TensorView<const T, 2> a, TensorView<const T, 2> b, TensorView<T, 2> c, const MatmulOptions<T>& options) {
  for (index_t m = 0; m < c.shape(0); ++m) {
    for (index_t n = 0; n < c.shape(1); ++n) {
      T sum = options.bias ? options.bias(n) : T{0};
      for (index_t k = 0; k < a.shape(1); ++k) sum += a(m, k) * b(n, k);
      c(m, n) = options.accumulate ? c(m, n) + sum : sum;
    }
  }
}

}  // namespace

void matmul(TensorView<const float, 2> a, TensorView<const float, 2> b, TensorView<float, 2> c,
            const MatmulOptions<float>& options) {
  plain(a, b, c, options);
}
void matmul(TensorView<const double, 2> a, TensorView<const double, 2> b, TensorView<double, 2> c,
            const MatmulOptions<double>& options) {
  plain(a, b, c, options);
}

}  // namespace multihead
