#include "multihead/nn/feed_forward.hpp"

#include "core/workspace.hpp"
#include "nn/rows.hpp"

namespace multihead::nn {
namespace {

constexpr index_t kTokensPerBlock = 512;  // enough to use all threads, small compared to a long batch

}  // namespace

template <class T>
FeedForward<T>::FeedForward(index_t features, index_t hidden_features, Activation act)
    : up(features, hidden_features), down(hidden_features, features), activation(act) {}

template <class T>
void FeedForward<T>::forward(TensorView<const T, 2> x, TensorView<T, 2> y, Executor* threads,
                             FeedForwardActivations<T>* activations, const RowDropout& dropout) const {
  require(x.shape(1) == features() && y.shape() == x.shape() && has_contiguous_rows(y), "FeedForward",
          "x and y must be [n, features], y with contiguous rows",
          {{"x", text_of(x)}, {"y", text_of(y)}, {"features", features()}});
  require(activations != nullptr || dropout.probability == 0, "FeedForward", "dropout needs activations that are kept");
  const index_t num_tokens = x.shape(0);
  const index_t per_block = activations ? num_tokens : std::min(num_tokens, kTokensPerBlock);
  if (activations && activations->hidden.shape() != std::array{num_tokens, hidden_features()}) {
    activations->hidden = Tensor<T, 2>::uninitialized({num_tokens, hidden_features()});
  }
  const Workspace<T> active(1, per_block * hidden_features());
  for (index_t begin = 0; begin < num_tokens; begin += per_block) {
    const index_t end = std::min(num_tokens, begin + per_block);
    const TensorView<T, 2> after(active.part(0), {end - begin, hidden_features()});
    const TensorView<T, 2> before = activations ? activations->hidden.view().slice(0, begin, end) : after;
    up.forward(x.slice(0, begin, end), before, threads);
    activation_forward<T>(activation, before, after, threads);
    if (dropout.probability > 0) apply_dropout<T>(dropout, after, after, false, threads);
    down.forward(after, y.slice(0, begin, end), threads);
  }
}

template <class T>
void FeedForward<T>::backward(TensorView<const T, 2> x, const FeedForwardActivations<T>& activations,
                              TensorView<const T, 2> dy, TensorView<T, 2> dx, FeedForward* gradients, Executor* threads,
                              const RowDropout& dropout) const {
  const index_t num_tokens = x.shape(0);
  require(activations.hidden.shape() == std::array{num_tokens, hidden_features()}, "FeedForward",
          "activations must be those of the forward of x",
          {{"x", text_of(x)}, {"hidden", text_of(activations.hidden.view())}, {"hidden_features", hidden_features()}});
  auto active = Tensor<T, 2>::uninitialized({num_tokens, hidden_features()});
  auto dhidden = Tensor<T, 2>::uninitialized({num_tokens, hidden_features()});
  activation_forward<T>(activation, activations.hidden, active, threads);
  if (dropout.probability > 0) apply_dropout<T>(dropout, active.view(), active, false, threads);
  down.backward(active, dy, dhidden, gradients ? &gradients->down : nullptr, threads);
  if (dropout.probability > 0) apply_dropout<T>(dropout, dhidden.view(), dhidden, false, threads);
  activation_backward<T>(activation, activations.hidden, dhidden.view(), dhidden, threads);
  up.backward(x, dhidden, dx, gradients ? &gradients->up : nullptr, threads);
}

template struct FeedForward<float>;
template struct FeedForward<double>;

}  // namespace multihead::nn
