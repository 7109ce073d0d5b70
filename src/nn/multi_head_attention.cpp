#include "multihead/nn/multi_head_attention.hpp"

#include <algorithm>
#include <cmath>

#include "nn/extra_key.hpp"
#include "nn/head_path.hpp"
#include "nn/multi_head_check.hpp"
#include "nn/query_rows.hpp"

namespace multihead::nn {
namespace {

// The options of attention_forward: those of the caller and those that the layer sets. `zeros` [H]: sinks of zero_attn.
template <class T>
AttentionOptions attention_options(const MultiHeadAttention<T>& layer, const MultiHeadOptions<T>& options,
                                   const Tensor<T, 1>& zeros) {
  AttentionOptions a = options.attention;
  const MultiHeadConfig& config = layer.config();
  const std::vector<index_t>& map = layer.heads().kv_head_of;
  if (!a.scale) a.scale = config.scale.value_or(1 / std::sqrt(static_cast<double>(layer.extents().head_dim)));
  a.kv_head_of = {map.data(), {static_cast<index_t>(map.size())}};
  if (config.sinks) a.sinks = layer.parameters().sinks.view();
  if (config.zero_attn) a.sinks = zeros.view();
  a.dropout.probability = options.training ? config.dropout : 0;
  return a;
}

template <class T>
HeadPath<T> q_path(const MultiHeadAttention<T>& layer, const MultiHeadInput<T>& x, const MultiHeadOptions<T>& options) {
  const MultiHeadParameters<T>& p = layer.parameters();
  return {layer.config(),
          p.w_q,
          p.b_q,
          layer.packed_weights().w_q,
          p.q_norm,
          layer.extents().head_dim,
          token_positions(options.positions_q, options.attention.packed.cu_seqlens_q, options.cache, x.x_q.shape(0),
                          x.x_q.shape(1))};
}

template <class T>
HeadPath<T> k_path(const MultiHeadAttention<T>& layer, const MultiHeadInput<T>& x, const MultiHeadOptions<T>& options) {
  const MultiHeadParameters<T>& p = layer.parameters();
  return {layer.config(),
          p.w_k,
          p.b_k,
          layer.packed_weights().w_k,
          p.k_norm,
          layer.extents().head_dim,
          token_positions(options.positions_k, options.attention.packed.cu_seqlens_kv, options.cache, x.x_k.shape(0),
                          x.x_k.shape(1))};
}

// Computes q [B, Sq, H, D], k [B, Skv, Hkv, D] and v [B, Skv, Hkv, Dv] of those of x_q, x_k and x_v that are given.
template <class T>
void project_tokens(const MultiHeadAttention<T>& layer, const MultiHeadInput<T>& x, const MultiHeadOptions<T>& options,
                    MultiHeadActivations<T>& act) {
  const MultiHeadExtents& e = layer.extents();
  const MultiHeadParameters<T>& p = layer.parameters();
  const HeadPath<T> q = q_path(layer, x, options), k = k_path(layer, x, options);
  std::vector<Projection<T>> projections;
  if (x.x_q) projections.push_back(q.projection(x.x_q, act.q_raw, act.q));
  if (x.x_k) {
    projections.push_back(k.projection(x.x_k, act.k_raw, act.k));
    reuse(act.v, {x.x_v.shape(0), x.x_v.shape(1), e.num_kv_heads, e.head_dim_v});
    projections.push_back({x.x_v, p.w_v, p.b_v, as_rows(act.v.view()), layer.packed_weights().w_v});
  }
  project<T>(projections, options.attention.threads);
  if (x.x_q) q.finish(act.q_raw, act.q);
  if (x.x_k) k.finish(act.k_raw, act.k);
}

template <class T>
ExtraKey<T> extra_key(const MultiHeadAttention<T>& layer, const AttentionOptions& a) {
  return {layer.parameters().bias_k, layer.parameters().bias_v, layer.heads().kv_head_of, *a.scale};
}

// Attention of all heads: writes rows.out, row_max, row_sum and probs.
template <class T>
void attend(const MultiHeadAttention<T>& layer, TensorView<const T, 4> q, const InputView<4>& k, const InputView<4>& v,
            const ExtraKeyRows<T>& rows, const AttentionOptions& a) {
  AttentionOutput output{.out = rows.out, .row_max = rows.row_max, .row_sum = rows.row_sum};
  if (rows.probs) output.probs = rows.probs;
  attention_forward({.q = q, .k = k, .v = v}, output, a);
  if (layer.config().bias_kv) join_extra_key<T>(extra_key(layer, a), q, a, rows);
}

template <class T>
void attend_to_cache(const MultiHeadAttention<T>& layer, TensorView<const T, 4> q, const KvCache& cache,
                     const ExtraKeyRows<T>& rows, AttentionOptions a) {
  const KvCacheView view = cache.view();
  a.page_table = view.page_table;
  a.mask.seqlen_kv = view.seqlen_kv;
  attend<T>(layer, q, view.k, view.v, rows, a);
}

// Appends the new tokens, then attends to all. If a ring must evict tokens, this happens in steps of one token.
template <class T>
void append_and_attend(const MultiHeadAttention<T>& layer, const MultiHeadActivations<T>& act, KvCache& cache,
                       const ExtraKeyRows<T>& rows, const AttentionOptions& options) {
  const index_t batch = act.q.shape(0), seqlen = act.q.shape(1);
  const auto& seqlen_q = options.mask.seqlen_q;
  Tensor<index_t, 1> counts({batch});
  for (index_t begin = 0, end = 0; begin < seqlen || seqlen == 0; begin = end) {
    index_t step = seqlen - begin;
    for (index_t b = 0; b < batch && cache.is_ring(); ++b) step = std::min(step, std::max<index_t>(cache.room(b), 1));
    end = begin + step;
    for (index_t b = 0; b < batch; ++b) counts(b) = seqlen_q ? std::clamp(seqlen_q(b) - begin, index_t{0}, step) : step;
    AttentionOptions a = options;
    if (seqlen_q) a.mask.seqlen_q = counts.view();
    cache.append(act.k.view().slice(1, begin, end), act.v.view().slice(1, begin, end), counts.view());
    ExtraKeyRows<T> part{rows.out.slice(1, begin, end), rows.row_max.slice(2, begin, end),
                         rows.row_sum.slice(2, begin, end), rows.probs};
    try {
      attend_to_cache<T>(layer, act.q.view().slice(1, begin, end), cache, part, a);
    } catch (...) {
      for (index_t b = 0; b < batch; ++b) cache.drop_last(b, counts(b));
      throw;
    }
    if (seqlen == 0) break;
  }
}

// gate[h] * head[h] as [B, S, H*Dv]; the heads themselves if there are no gates.
template <class T>
Tensor<T, 4> gated(const Tensor<T, 4>& heads, TensorView<const T, 1> gates) {
  Tensor<T, 4> result = heads.clone();
  T* x = result.data();
  for (index_t n = 0; n < heads.size(); ++n) x[n] *= gates(n / heads.shape(3) % heads.shape(2));
  return result;
}

// dgates[s, h] = sum over the tokens of sequence s of dgated . head
template <class T>
void gate_gradients(const Tensor<T, 4>& dgated, const Tensor<T, 4>& heads, const AttentionOptions& a,
                    TensorView<T, 2> dgates) {
  for_each_sequence(a, heads.shape(0), heads.shape(1), [&](const QueryRows& s) {
    for (index_t h = 0; h < heads.shape(2); ++h) {
      double sum = 0;
      for (index_t i = s.begin; i < s.begin + s.count; ++i) {
        for (index_t d = 0; d < heads.shape(3); ++d) {
          sum += static_cast<double>(dgated(s.batch, i, h, d)) * static_cast<double>(heads(s.batch, i, h, d));
        }
      }
      dgates(s.sequence, h) = static_cast<T>(sum);
    }
  });
}

template <class T>
void log_sum_exp(const MultiHeadActivations<T>& act, TensorView<T, 3> lse) {
  for (index_t b = 0; b < lse.shape(0); ++b) {
    for (index_t h = 0; h < lse.shape(1); ++h) {
      for (index_t i = 0; i < lse.shape(2); ++i) lse(b, h, i) = act.row_max(b, h, i) + std::log(act.row_sum(b, h, i));
    }
  }
}

template <class T>
void copy(TensorView<const T, 4> from, TensorView<T, 4> to) {
  for (index_t b = 0; b < to.shape(0); ++b) {
    for (index_t i = 0; i < to.shape(1); ++i) {
      for (index_t h = 0; h < to.shape(2); ++h) {
        for (index_t d = 0; d < to.shape(3); ++d) to(b, i, h, d) = from(b, i, h, d);
      }
    }
  }
}

template <class T>
struct AttentionInputGradients {
  Tensor<T, 4> dq, dk, dv;  // of q [B, Sq, H, D], k [B, Skv, Hkv, D], v [B, Skv, Hkv, Dv]
};

// From dheads [B, Sq, H, Dv] to the gradients of q, k, v, and of bias, slopes, sinks and the extra key.
template <class T>
AttentionInputGradients<T> attend_backward(const MultiHeadAttention<T>& layer, const MultiHeadActivations<T>& act,
                                           const Tensor<T, 4>& dheads, const AttentionOptions& a,
                                           const MultiHeadGradients<T>& gradients, MultiHeadParameters<T>& d) {
  AttentionInputGradients<T> g{Tensor<T, 4>(act.q.shape()), Tensor<T, 4>(act.k.shape()), Tensor<T, 4>(act.v.shape())};
  if (layer.num_heads() == 0) return g;
  AttentionGradients wanted{.dq = g.dq.view(), .dk = g.dk.view(), .dv = g.dv.view()};
  wanted.dbias = gradients.dbias;
  wanted.dslopes = gradients.dslopes;
  Tensor<T, 1> dsinks(d.sinks.shape());
  if (d.sinks.data()) wanted.dsinks = dsinks.view();
  attention_backward({.q = act.q.view(),
                      .k = act.k.view(),
                      .v = act.v.view(),
                      .out = act.heads.view(),
                      .row_max = act.row_max.view(),
                      .row_sum = act.row_sum.view(),
                      .dout = dheads.view()},
                     wanted, a);
  for (index_t h = 0; h < d.sinks.size(); ++h) d.sinks(h) += dsinks(h);
  if (layer.config().bias_kv) {
    extra_key_backward<T>(extra_key(layer, a), act.q.view(), dheads.view(), a,
                          {act.heads.view(), act.row_max.view(), act.row_sum.view()},
                          {g.dq.view(), d.bias_k.data() ? &d.bias_k : nullptr, d.bias_v.data() ? &d.bias_v : nullptr});
  }
  return g;
}

}  // namespace

template <class T>
void MultiHeadAttention<T>::fill_cache(TensorView<const T, 3> x_k, TensorView<const T, 3> x_v, KvCache& cache,
                                       const MultiHeadOptions<T>& options) const {
  check_fill(*this, x_k, x_v, cache, options);
  MultiHeadActivations<T> act;
  MultiHeadOptions<T> at_cache = options;
  at_cache.cache = &cache;
  project_tokens(*this, {.x_q = {}, .x_k = x_k, .x_v = x_v ? x_v : x_k}, at_cache, act);
  cache.append(act.k.view(), act.v.view(), options.attention.mask.seqlen_kv);
}

template <class T>
void MultiHeadAttention<T>::forward(const MultiHeadInput<T>& input, const MultiHeadOutput<T>& output,
                                    const MultiHeadOptions<T>& options, MultiHeadActivations<T>* activations) const {
  check_forward(*this, input, output, options);
  const MultiHeadInput<T> x = complete(input, options);
  const index_t batch = x.x_q.shape(0), seqlen_q = x.x_q.shape(1), num_heads = extents_.num_heads;
  Executor* threads = options.attention.threads;
  MultiHeadActivations<T> own;
  MultiHeadActivations<T>& act = activations ? *activations : own;

  project_tokens(*this, x, options, act);
  reuse(act.heads, {batch, seqlen_q, num_heads, extents_.head_dim_v});
  reuse(act.row_max, {batch, num_heads, seqlen_q});
  reuse(act.row_sum, {batch, num_heads, seqlen_q});
  const ExtraKeyRows<T> rows{act.heads.view(), act.row_max.view(), act.row_sum.view(), output.probs};
  const Tensor<T, 1> zeros({num_heads});
  const AttentionOptions a = attention_options(*this, options, zeros);
  if (num_heads == 0) {
    // no head remains: y is b_o
  } else if (options.cache && options.append_to_cache) {
    append_and_attend(*this, act, *options.cache, rows, a);
  } else if (options.cache) {
    attend_to_cache<T>(*this, act.q.view(), *options.cache, rows, a);
  } else {
    attend<T>(*this, act.q.view(), act.k.view(), act.v.view(), rows, a);
  }

  const Tensor<T, 4> gated_heads = options.gates ? gated(act.heads, options.gates) : Tensor<T, 4>();
  const Tensor<T, 4>& concat = options.gates ? gated_heads : act.heads;
  const Projection<T> fusion{as_rows(concat.view()), parameters_.w_o, parameters_.b_o, output.y, packed_.w_o};
  project<T>({&fusion, 1}, threads);
  if (output.heads) copy<T>(act.heads.view(), output.heads);
  if (output.lse) log_sum_exp(act, output.lse);
}

// dgated = dy w_o          dhead[h] = gate[h] * dgated[h]         then through attention, and through q, k, v to x
template <class T>
void MultiHeadAttention<T>::backward(const MultiHeadInput<T>& input, const MultiHeadActivations<T>& act,
                                     TensorView<const T, 3> dy, const MultiHeadGradients<T>& gradients,
                                     const MultiHeadOptions<T>& options) const {
  check_backward(*this, input, act, dy, gradients, options);
  const MultiHeadInput<T> x = complete(input, options);
  Executor* threads = options.attention.threads;
  MultiHeadParameters<T> none;
  MultiHeadParameters<T>& d = gradients.parameters ? *gradients.parameters : none;

  const Tensor<T, 4> gated_heads = options.gates ? gated(act.heads, options.gates) : Tensor<T, 4>();
  const Tensor<T, 4>& concat = options.gates ? gated_heads : act.heads;
  Tensor<T, 4> dgated(act.heads.shape());
  project_backward<T>(as_rows(concat.view()), parameters_.w_o, dy,
                      {.dx = as_rows(dgated.view()), .dw = &d.w_o, .db = &d.b_o}, threads);
  const Tensor<T, 4> gated_gradients = options.gates ? gated(dgated, options.gates) : Tensor<T, 4>();
  const Tensor<T, 4>& dheads = options.gates ? gated_gradients : dgated;

  const Tensor<T, 1> zeros({extents_.num_heads});
  AttentionInputGradients<T> g =
      attend_backward(*this, act, dheads, attention_options(*this, options, zeros), gradients, d);
  if (gradients.dgates) gate_gradients(dgated, act.heads, options.attention, gradients.dgates);

  const bool own_k = bool(input.x_k), own_v = bool(input.x_v);
  const TensorView<T, 3> dx_k = own_k ? gradients.dx_k : gradients.dx_q;
  const TensorView<T, 3> dx_v = own_v ? gradients.dx_v : dx_k;
  q_path(*this, x, options)
      .backward(x.x_q, act.q_raw, g.dq, &d.q_norm, {.dx = gradients.dx_q, .dw = &d.w_q, .db = &d.b_q}, threads);
  k_path(*this, x, options).backward(x.x_k, act.k_raw, g.dk, &d.k_norm, {dx_k, !own_k, &d.w_k, &d.b_k}, threads);
  project_backward<T>(x.x_v, parameters_.w_v, as_rows<const T>(g.dv.view()), {dx_v, !own_v, &d.w_v, &d.b_v}, threads);
}

template class MultiHeadAttention<float>;
template class MultiHeadAttention<double>;

}  // namespace multihead::nn
