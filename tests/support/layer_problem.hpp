// A multi-head attention layer with random parameters, inputs and options, for the tests of the layer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "multihead/nn/multi_head_attention.hpp"
#include "tests/support/random.hpp"

namespace multihead::test {

template <class T, int R>
Tensor<T, R> random_tensor(Random& random, typename Tensor<T, R>::Extents shape, double offset = 0) {
  Tensor<T, R> x(shape);
  for (index_t n = 0; n < x.size(); ++n) x.data()[n] = T(random.uniform() + offset);
  return x;
}

/// A layer whose parameters are all away from zero, norms and biases too.
template <class T>
nn::MultiHeadAttention<T> random_layer(const nn::MultiHeadConfig& config, Random& random) {
  nn::MultiHeadAttention<T> layer(config);
  layer.initialize(random.bits());
  layer.parameters().for_each([&](std::string_view name, auto& p) {
    for (index_t n = 0; n < p.size() && name[0] != 'w'; ++n) p.data()[n] = T(random.uniform() + 0.5);
  });
  return layer;
}

/// y of a forward, made for the input.
template <class T>
Tensor<T, 3> y_of(const nn::MultiHeadAttention<T>& layer, const nn::MultiHeadInput<T>& input,
                  const nn::MultiHeadOptions<T>& options = {}) {
  Tensor<T, 3> y({input.x_q.shape(0), input.x_q.shape(1), layer.extents().y_width});
  layer.forward(input, {.y = y.view()}, options);
  return y;
}

struct LayerCase {
  std::string name;
  nn::MultiHeadConfig config;
  bool cross = false;  ///< x_k and x_v of their own, another seqlen_kv
  std::vector<index_t> remove = {};
  bool gates = false, bias = false, visible = false, lengths = false, packed = false, positions = false;
  Causal causal = Causal::off;
  std::optional<double> softcap = {};
};

/// Every part of the layer by itself, and some together.
std::vector<LayerCase> layer_cases();

template <class T>
struct LayerProblem {
  static constexpr index_t kBatch = 2, kSeqlen = 4, kSeqlenKv = 5;

  LayerCase c;
  nn::MultiHeadAttention<T> layer;
  index_t batch, seqlen_q, seqlen_kv;
  Tensor<T, 3> x_q, x_k, x_v, dy;
  Tensor<T, 1> gates;
  Tensor<T, 4> bias;
  Tensor<bool, 2> visible;
  Tensor<index_t, 2> positions_q, positions_k;
  std::vector<index_t> seqlens_q = {3, 4}, seqlens_kv = {4, 2}, cu_q = {0, 1, 4}, cu_kv = {0, 3, 5};

  LayerProblem(const LayerCase& from, std::uint64_t seed) : c(from), layer(from.config) {
    Random random(seed);
    layer = random_layer<T>(c.config, random);
    layer.remove_heads(c.remove);
    const nn::MultiHeadExtents& e = layer.extents();
    batch = c.packed ? 1 : kBatch;
    seqlen_q = kSeqlen;
    seqlen_kv = c.cross ? kSeqlenKv : kSeqlen;
    if (!c.cross) seqlens_kv = seqlens_q, cu_kv = cu_q;
    x_q = random_tensor<T, 3>(random, {batch, seqlen_q, e.d_model}, 0.3);
    x_k = random_tensor<T, 3>(random, {batch, seqlen_kv, e.k_width}, 0.3);
    x_v = random_tensor<T, 3>(random, {batch, seqlen_kv, e.v_width}, 0.3);
    dy = random_tensor<T, 3>(random, {batch, seqlen_q, e.y_width}, 0.2);
    gates = random_tensor<T, 1>(random, {e.num_heads}, 0.5);
    gates.data()[0] = 0;
    bias = random_tensor<T, 4>(random, {kBatch, 1, c.packed ? 3 : seqlen_q, c.packed ? 3 : seqlen_kv});
    visible = Tensor<bool, 2>({seqlen_q, seqlen_kv});
    for (index_t n = 0; n < visible.size(); ++n) visible.data()[n] = random.chance(0.6);
    positions_q = Tensor<index_t, 2>({batch, seqlen_q});
    positions_k = Tensor<index_t, 2>({batch, seqlen_kv});
    for (index_t n = 0; n < positions_q.size(); ++n) positions_q.data()[n] = random.integer(-3, 30);
    for (index_t n = 0; n < positions_k.size(); ++n) positions_k.data()[n] = random.integer(-3, 30);
  }

  nn::MultiHeadInput<T> input() const {
    if (!c.cross) return {.x_q = x_q.view()};
    return {.x_q = x_q.view(), .x_k = x_k.view(), .x_v = x_v.view()};
  }

  nn::MultiHeadOptions<T> options() const {
    const auto list = [](const std::vector<index_t>& v) {
      return TensorView<const index_t, 1>(v.data(), {static_cast<index_t>(v.size())});
    };
    nn::MultiHeadOptions<T> options;
    AttentionOptions& a = options.attention;
    a.mask.causal = c.causal;
    a.softcap = c.softcap;
    a.dropout.seed = 77;
    options.training = c.config.dropout > 0;
    if (c.bias) a.bias = bias.view();
    if (c.visible) a.mask.visible = visible.view();
    if (c.lengths) a.mask.seqlen_q = list(seqlens_q), a.mask.seqlen_kv = list(seqlens_kv);
    if (c.packed) a.packed = {list(cu_q), list(cu_kv)};
    if (c.gates) options.gates = gates.view();
    if (c.positions) options.positions_q = positions_q.view(), options.positions_k = positions_k.view();
    return options;
  }
};

}  // namespace multihead::test
