#include "multihead/nn/linear.hpp"

#include "multihead/matmul.hpp"
#include "nn/row_sums.hpp"
#include "nn/rows.hpp"

namespace multihead::nn {

template <class T>
Linear<T>::Linear(index_t in_features, index_t out_features, bool with_bias) : weight({out_features, in_features}) {
  if (with_bias) bias = Tensor<T, 1>({out_features});
}

template <class T>
void Linear<T>::forward(TensorView<const T, 2> x, TensorView<T, 2> y, Executor* threads) const {
  require(x.shape(1) == in_features() && y.shape(1) == out_features() && x.shape(0) == y.shape(0), "Linear",
          "x must be [n, in_features] and y [n, out_features]",
          {{"x", text_of(x)}, {"y", text_of(y)}, {"weight", text_of(weight.view())}});
  matmul(x, weight.view(), y,
         {.bias = bias.data() ? bias.view() : TensorView<const T, 1>(), .packed = &packed_weight, .threads = threads});
}

template <class T>
void Linear<T>::backward(TensorView<const T, 2> x, TensorView<const T, 2> dy, TensorView<T, 2> dx, Linear* gradients,
                         Executor* threads) const {
  require(x.shape(1) == in_features() && dy.shape(1) == out_features() && x.shape(0) == dy.shape(0) &&
              (!dx || dx.shape() == x.shape()),
          "Linear", "x and dx must be [n, in_features] and dy [n, out_features]",
          {{"x", text_of(x)}, {"dy", text_of(dy)}, {"dx", text_of(dx)}, {"weight", text_of(weight.view())}});
  require(
      gradients == nullptr || (gradients->weight.shape() == weight.shape() && gradients->bias.shape() == bias.shape()),
      "Linear", "gradients must have the shapes of the parameters",
      {{"weight", text_of(weight.view())},
       {"gradient", text_of(gradients ? gradients->weight.view() : TensorView<T, 2>())}});
  if (dx) matmul(dy, weight.view().permute({1, 0}), dx, {.threads = threads});
  if (gradients == nullptr) return;
  matmul(dy.permute({1, 0}), x.permute({1, 0}), gradients->weight, {.accumulate = true, .threads = threads});
  if (bias.data()) add_rows<T>(dy, gradients->bias.view(), threads);
}

template struct Linear<float>;
template struct Linear<double>;

}  // namespace multihead::nn
