#include "multihead/nn/gated_feed_forward.hpp"

#include "multihead/matmul.hpp"
#include "nn/rows.hpp"

namespace multihead::nn {
namespace {

template <class T>
Tensor<T, 2> like(const Tensor<T, 2>& other) {
  return Tensor<T, 2>::uninitialized(other.shape());
}

// a *= b
template <class T>
void multiply_by(Tensor<T, 2>& a, const Tensor<T, 2>& b) {
  for (index_t n = 0; n < a.size(); ++n) a.data()[n] *= b.data()[n];
}

}  // namespace

template <class T>
GatedFeedForward<T>::GatedFeedForward(index_t features, index_t hidden_features, Activation act)
    : gate(features, hidden_features),
      up(features, hidden_features),
      down(hidden_features, features),
      activation(act) {}

template <class T>
void GatedFeedForward<T>::forward(TensorView<const T, 2> x, TensorView<T, 2> y, Executor* threads,
                                  GatedFeedForwardActivations<T>* activations, const RowDropout& dropout) const {
  require(x.shape(1) == features() && y.shape() == x.shape() && has_contiguous_rows(y), "GatedFeedForward",
          "x and y must be [n, features], y with contiguous rows",
          {{"x", text_of(x)}, {"y", text_of(y)}, {"features", features()}});
  GatedFeedForwardActivations<T> own;
  GatedFeedForwardActivations<T>& act = activations ? *activations : own;
  const std::array extents{x.shape(0), hidden_features()};
  if (act.gate.shape() != extents) act.gate = Tensor<T, 2>::uninitialized(extents);
  if (act.up.shape() != extents) act.up = Tensor<T, 2>::uninitialized(extents);
  gate.forward(x, act.gate, threads);
  up.forward(x, act.up, threads);
  Tensor<T, 2> active = like(act.gate);
  activation_forward<T>(activation, act.gate, active, threads);
  multiply_by(active, act.up);
  if (dropout.probability > 0) apply_dropout<T>(dropout, active.view(), active, false, threads);
  down.forward(active, y, threads);
}

// With a = activation(gate), h = a * up and dh = dropout(down^T dy):
//   dgate = dh * up * activation'(gate),  dup = dh * a,  dx = gate^T dgate + up^T dup
template <class T>
void GatedFeedForward<T>::backward(TensorView<const T, 2> x, const GatedFeedForwardActivations<T>& act,
                                   TensorView<const T, 2> dy, TensorView<T, 2> dx, GatedFeedForward* gradients,
                                   Executor* threads, const RowDropout& dropout) const {
  const std::array extents{x.shape(0), hidden_features()};
  require(act.gate.shape() == extents && act.up.shape() == extents, "GatedFeedForward",
          "activations must be those of the forward of x",
          {{"x", text_of(x)}, {"gate", text_of(act.gate.view())}, {"hidden_features", hidden_features()}});
  Tensor<T, 2> active = like(act.gate), product = like(act.gate), dproduct = like(act.gate);
  activation_forward<T>(activation, act.gate, active, threads);
  std::copy_n(active.data(), active.size(), product.data());
  multiply_by(product, act.up);
  if (dropout.probability > 0) apply_dropout<T>(dropout, product.view(), product, false, threads);
  down.backward(product, dy, dproduct, gradients ? &gradients->down : nullptr, threads);
  if (dropout.probability > 0) apply_dropout<T>(dropout, dproduct.view(), dproduct, false, threads);
  multiply_by(active, dproduct);  // dup
  up.backward(x, active, dx, gradients ? &gradients->up : nullptr, threads);
  multiply_by(dproduct, act.up);
  activation_backward<T>(activation, act.gate, dproduct.view(), dproduct, threads);  // dgate
  gate.backward(x, dproduct, {}, gradients ? &gradients->gate : nullptr, threads);
  if (dx) matmul(dproduct, gate.weight.view().permute({1, 0}), dx, {.accumulate = true, .threads = threads});
}

template struct GatedFeedForward<float>;
template struct GatedFeedForward<double>;

}  // namespace multihead::nn
