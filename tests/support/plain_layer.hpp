// Multi-head attention as a layer, by its definition: plain loops in `Real`, the reference's attention, no shared code.
#pragma once

#include <cmath>
#include <complex>
#include <numbers>

#include "multihead/nn/multi_head_attention.hpp"
#include "reference/array.hpp"
#include "reference/attention.hpp"
#include "tests/support/any_tensor.hpp"

namespace multihead::test {

using reference::Array;

template <class Real>
struct PlainLayer {
  Array<Real, 3> y;
  Array<Real, 4> heads, probs;
};

/// sum over in of w(out, in) * x(b, i, in), plus b(out).
template <class Real, class T>
Array<Real, 3> plain_projection(const Array<Real, 3>& x, const Tensor<T, 2>& w, const Tensor<T, 1>& bias) {
  Array<Real, 3> y({x.shape[0], x.shape[1], w.shape(0)});
  for (index_t b = 0; b < x.shape[0]; ++b) {
    for (index_t i = 0; i < x.shape[1]; ++i) {
      for (index_t n = 0; n < w.shape(0); ++n) {
        Real sum = bias.data() ? Real(bias(n)) : Real(0);
        for (index_t m = 0; m < w.shape(1); ++m) sum += x(b, i, m) * Real(w(n, m));
        y(b, i, n) = sum;
      }
    }
  }
  return y;
}

/// Each head of [B, S, H*D] divided by its root mean square, times weight.
template <class Real, class T>
void plain_norm(Array<Real, 3>& x, const Tensor<T, 1>& weight, double epsilon) {
  if (!weight.data()) return;
  const auto head_dim = static_cast<std::size_t>(weight.shape(0));
  for (std::size_t row = 0; row < x.values.size(); row += head_dim) {
    Real squares = 0;
    for (std::size_t d = 0; d < head_dim; ++d) squares += x.values[row + d] * x.values[row + d];
    const Real root = std::sqrt(squares / Real(head_dim) + Real(epsilon));
    for (std::size_t d = 0; d < head_dim; ++d) x.values[row + d] *= Real(weight(static_cast<index_t>(d))) / root;
  }
}

/// Turns pairs of features as complex numbers; no scaling.
template <class Real>
void plain_rope(Array<Real, 3>& x, const nn::RopeConfig& config, index_t head_dim, TensorView<const index_t, 2> at) {
  const index_t rotary_dim = config.rotary_dim.value_or(head_dim);
  const bool neighbours = config.pairing == nn::RopePairing::interleaved;
  for (index_t b = 0; b < x.shape[0]; ++b) {
    for (index_t i = 0; i < x.shape[1]; ++i) {
      for (index_t n = 0; n < x.shape[2]; ++n) {
        const index_t d = n % head_dim;
        const bool first = d < rotary_dim && (neighbours ? d % 2 == 0 : d < rotary_dim / 2);
        if (!first) continue;
        const index_t pair = neighbours ? d / 2 : d, other = n + (neighbours ? 1 : rotary_dim / 2);
        const double angle = static_cast<double>(at ? at(b, i) : i) *
                             std::pow(config.base, -2.0 * static_cast<double>(pair) / static_cast<double>(rotary_dim));
        const std::complex<Real> turn(std::polar(1.0, angle));
        const std::complex<Real> value = std::complex<Real>(x(b, i, n), x(b, i, other)) * turn;
        x(b, i, n) = value.real();
        x(b, i, other) = value.imag();
      }
    }
  }
}

/// [B, S, H*D] and room for `extra` more tokens at the end, as a tensor of Real's dtype.
template <class Real>
AnyTensor<4> plain_heads(const Array<Real, 3>& x, index_t head_dim, index_t extra, DType dtype) {
  AnyTensor<4> heads(dtype, {x.shape[0], x.shape[1] + extra, x.shape[2] / head_dim, head_dim});
  heads.generate([&](std::array<index_t, 4> at) {
    return at[1] < x.shape[1] ? static_cast<double>(x(at[0], at[1], at[2] * head_dim + at[3])) : 0.0;
  });
  return heads;
}

/// The whole layer. Keys that bias_kv and zero_attn add are appended in the flesh, so with them masks other than a
/// boolean one of rank 2 must be off. No dropout, no cache, nothing packed.
template <class Real, class T>
PlainLayer<Real> plain_layer(const nn::MultiHeadAttention<T>& layer, const nn::MultiHeadInput<T>& input,
                             const nn::MultiHeadOptions<T>& options) {
  const nn::MultiHeadConfig& config = layer.config();
  const nn::MultiHeadExtents& e = layer.extents();
  const nn::MultiHeadParameters<T>& p = layer.parameters();
  const DType dtype = std::is_same_v<Real, float> ? DType::f32 : DType::f64;
  const TensorView<const T, 3> x_k = input.x_k ? input.x_k : input.x_q, x_v = input.x_v ? input.x_v : x_k;
  Array<Real, 3> q = plain_projection(reference::read<Real, 3>(input.x_q), p.w_q, p.b_q);
  Array<Real, 3> k = plain_projection(reference::read<Real, 3>(x_k), p.w_k, p.b_k);
  const Array<Real, 3> v = plain_projection(reference::read<Real, 3>(x_v), p.w_v, p.b_v);
  plain_norm(q, p.q_norm, config.norm_epsilon);
  plain_norm(k, p.k_norm, config.norm_epsilon);
  if (config.rope) plain_rope(q, *config.rope, e.head_dim, options.positions_q);
  if (config.rope) plain_rope(k, *config.rope, e.head_dim, options.positions_k);

  const index_t batch = q.shape[0], seqlen_q = q.shape[1], seqlen_kv = k.shape[1];
  const index_t extra = static_cast<index_t>(config.bias_kv) + static_cast<index_t>(config.zero_attn);
  const AnyTensor<4> q4 = plain_heads(q, e.head_dim, 0, dtype);
  AnyTensor<4> k4 = plain_heads(k, e.head_dim, extra, dtype), v4 = plain_heads(v, e.head_dim_v, extra, dtype);
  for (index_t b = 0; b < batch && config.bias_kv; ++b) {
    for (index_t g = 0; g < e.num_kv_heads; ++g) {
      for (index_t d = 0; d < e.head_dim; ++d) k4.set({b, seqlen_kv, g, d}, static_cast<double>(p.bias_k(g, d)));
      for (index_t d = 0; d < e.head_dim_v; ++d) v4.set({b, seqlen_kv, g, d}, static_cast<double>(p.bias_v(g, d)));
    }
  }

  AttentionOptions a = options.attention;
  AnyTensor<4> visible(DType::boolean, {1, 1, seqlen_q, seqlen_kv + extra});
  visible.generate([&](std::array<index_t, 4> at) {
    if (at[3] >= seqlen_kv || !a.mask.visible) return 1.0;
    return a.mask.visible.as<bool>()(0, 0, at[2], at[3]) ? 1.0 : 0.0;
  });
  if (extra > 0) a.mask.visible = visible.broadcast();
  if (!a.scale && config.scale) a.scale = config.scale;
  AnyTensor<1> sinks(dtype, {e.num_heads});
  if (config.sinks) {
    sinks.generate([&](std::array<index_t, 1> at) { return static_cast<double>(p.sinks(at[0])); });
    a.sinks = sinks.in();
  }
  const std::vector<index_t>& map = layer.heads().kv_head_of;
  a.kv_head_of = {map.data(), {static_cast<index_t>(map.size())}};
  AnyTensor<4> out(dtype, {batch, seqlen_q, e.num_heads, e.head_dim_v});
  AnyTensor<4> probs(dtype, {batch, e.num_heads, seqlen_q, seqlen_kv + extra});
  a.probs = {};
  reference::attention_forward<Real>({q4.in(), k4.in(), v4.in()}, {.out = out.out(), .probs = probs.out()}, a);

  PlainLayer<Real> result{{}, reference::read<Real, 4>(out.in()), reference::read<Real, 4>(probs.in())};
  Array<Real, 3> concat({batch, seqlen_q, e.num_heads * e.head_dim_v});
  for (index_t b = 0; b < batch; ++b) {
    for (index_t i = 0; i < seqlen_q; ++i) {
      for (index_t h = 0; h < e.num_heads; ++h) {
        const Real gate = options.gates ? Real(options.gates(h)) : Real(1);
        for (index_t d = 0; d < e.head_dim_v; ++d) {
          concat(b, i, h * e.head_dim_v + d) = gate * result.heads(b, i, h, d);
        }
      }
    }
  }
  result.y = plain_projection(concat, p.w_o, p.b_o);
  return result;
}

}  // namespace multihead::test
