#include "nn/multi_head_check.hpp"

#include "core/require.hpp"

namespace multihead::nn {
namespace {

template <std::size_t R>
GotShape text(const std::array<index_t, R>& shape) {
  return {shape.data(), static_cast<int>(R)};
}

// An absent view passes. `rule` states the shape in words.
template <class T, int R>
void check_shape(const char* function, const TensorView<T, R>& view, const char* name,
                 const typename TensorView<T, R>::Extents& expected, const char* rule) {
  require(!view || view.shape() == expected, function, rule,
          {{name, text(view.shape())}, {"expected", text(expected)}});
}

template <class T, int R>
void check_last_axis(const char* function, const TensorView<T, R>& view, const char* name) {
  require(!view || view.shape(R - 1) <= 1 || view.stride(R - 1) == 1, function,
          std::string(name) + "'s last axis must be contiguous", {{"stride", view.stride(R - 1)}});
}

template <class T>
void check_keys(const char* function, const MultiHeadExtents& e, TensorView<const T, 3> x_k,
                TensorView<const T, 3> x_v) {
  require(x_k.shape(2) == e.k_width, function, "x_k's last axis must be k_width",
          {{"x_k", text(x_k.shape())}, {"k_width", e.k_width}}, "x_k is x_q where it is not given");
  require(x_v.shape(2) == e.v_width, function, "x_v's last axis must be v_width",
          {{"x_v", text(x_v.shape())}, {"v_width", e.v_width}}, "x_v is x_k where it is not given");
  require(x_k.shape(0) == x_v.shape(0) && x_k.shape(1) == x_v.shape(1), function,
          "x_k and x_v must have one batch and one seqlen_kv",
          {{"x_k", text(x_k.shape())}, {"x_v", text(x_v.shape())}});
}

template <class T>
void check_input(const char* function, const MultiHeadExtents& e, const MultiHeadInput<T>& x) {
  require(bool(x.x_q), function, "x_q must be given");
  require(x.x_q.shape(2) == e.d_model, function, "x_q's last axis must be d_model",
          {{"x_q", text(x.x_q.shape())}, {"d_model", e.d_model}});
  if (!x.x_k) return;  // only the cache is read
  check_keys(function, e, x.x_k, x.x_v);
  require(x.x_k.shape(0) == x.x_q.shape(0), function, "x_q and x_k must have one batch",
          {{"x_q", text(x.x_q.shape())}, {"x_k", text(x.x_k.shape())}});
}

template <class T>
void check_options(const char* function, const MultiHeadAttention<T>& layer, const MultiHeadInput<T>& x,
                   const MultiHeadOptions<T>& options) {
  const AttentionOptions& a = options.attention;
  const MultiHeadConfig& config = layer.config();
  require(a.dropout.probability == 0, function, "the dropout probability must be left to the layer",
          {{"attention.dropout.probability", a.dropout.probability}, {"config.dropout", config.dropout}},
          "set training, and dropout.seed");
  require(!a.kv_head_of, function, "kv_head_of must be left to the layer");
  require(!a.page_table, function, "page_table must be left to the layer", {}, "give a cache");
  require(!(a.sinks && (config.sinks || config.zero_attn)), function,
          "sinks must not be given to a layer with sinks or zero_attn of its own");
  check_shape(function, options.gates, "gates", {layer.num_heads()}, "gates must be [num_heads]");
  require(config.rope || !(options.positions_q || options.positions_k), function,
          "positions must go with a layer that has rope");
  check_shape(function, options.positions_q, "positions_q", {x.x_q.shape(0), x.x_q.shape(1)},
              "positions_q must be [batch, seqlen_q]");
  if (x.x_k) {
    check_shape(function, options.positions_k, "positions_k", {x.x_k.shape(0), x.x_k.shape(1)},
                "positions_k must be [batch, seqlen_kv]");
  }
}

template <class T>
void check_cache(const char* function, const MultiHeadAttention<T>& layer, const KvCache& cache, index_t batch) {
  const MultiHeadExtents& e = layer.extents();
  const KvCacheShape& c = cache.shape();
  require(c.num_sequences == batch && c.num_kv_heads == e.num_kv_heads && c.head_dim == e.head_dim &&
              c.head_dim_v == e.head_dim_v,
          function, "the cache must be [batch, num_kv_heads, head_dim, head_dim_v]",
          {{"cache", text(std::array{c.num_sequences, c.num_kv_heads, c.head_dim, c.head_dim_v})},
           {"expected", text(std::array{batch, e.num_kv_heads, e.head_dim, e.head_dim_v})}});
  require<UnsupportedError>((c.dtype == DType::f64) == (dtype_of<T> == DType::f64), function,
                            "an f64 cache must go with an f64 layer, and only with one",
                            {{"cache", c.dtype}, {"layer", dtype_of<T>}});
  const auto& rope = layer.config().rope;
  require<UnsupportedError>(!rope || rope->scaling != RopeScaling::dynamic, function,
                            "dynamic rope scaling must not go with a cache", {},
                            "its angles change with the length, those of cached keys would be stale");
}

// The case in which the tokens of x_q are appended and attention then reads the cache.
template <class T>
void check_append(const char* function, TensorView<const T, 3> x_q, const MultiHeadOutput<T>& output,
                  const MultiHeadOptions<T>& options) {
  const KvCache& cache = *options.cache;
  const index_t batch = x_q.shape(0), tokens = x_q.shape(1);
  cache.check_append(function, batch, tokens, options.attention.mask.seqlen_q);
  index_t room = tokens;
  for (index_t b = 0; b < batch; ++b) room = std::min(room, cache.room(b));
  const AttentionOptions& a = options.attention;
  const bool steps = cache.is_ring() && tokens > std::max<index_t>(room, 1);
  require<UnsupportedError>(
      !steps || (a.mask.causal == Causal::bottom_right && !a.bias && !a.mask.visible && !output.probs), function,
      "more tokens than a ring has room for must go with Causal::bottom_right and without bias, visible and probs",
      {{"tokens", tokens}, {"room", room}}, "give one token at a time");
}

template <class T>
void check_cached_forward(const char* function, const MultiHeadAttention<T>& layer, TensorView<const T, 3> x_q,
                          const MultiHeadOutput<T>& output, const MultiHeadOptions<T>& options) {
  const AttentionOptions& a = options.attention;
  check_cache(function, layer, *options.cache, x_q.shape(0));
  require(!a.mask.seqlen_kv, function, "seqlen_kv must be left to the cache");
  require<UnsupportedError>(!a.packed.cu_seqlens_q && !a.packed.cu_seqlens_kv, function,
                            "packed sequences must not go with a cache");
  require<UnsupportedError>(!(options.training && layer.config().dropout > 0), function,
                            "dropout in training must not go with a cache");
  if (options.append_to_cache) check_append(function, x_q, output, options);
}

}  // namespace

template <class T>
MultiHeadInput<T> complete(const MultiHeadInput<T>& input, const MultiHeadOptions<T>& options) {
  MultiHeadInput<T> x = input;
  if (options.cache && !options.append_to_cache) return x;
  if (!x.x_k) x.x_k = x.x_q;
  if (!x.x_v) x.x_v = x.x_k;
  return x;
}

template <class T>
void check_forward(const MultiHeadAttention<T>& layer, const MultiHeadInput<T>& input, const MultiHeadOutput<T>& output,
                   const MultiHeadOptions<T>& options) {
  const char* function = "MultiHeadAttention::forward";
  const MultiHeadExtents& e = layer.extents();
  require(options.append_to_cache || options.cache, function, "append_to_cache=false must go with a cache");
  require(!options.cache || (!input.x_k && !input.x_v), function, "x_k and x_v must not go with a cache", {},
          "fill_cache appends other tokens than x_q");
  const MultiHeadInput<T> x = complete(input, options);
  check_input(function, e, x);
  check_options(function, layer, x, options);
  const index_t batch = x.x_q.shape(0), seqlen_q = x.x_q.shape(1);
  require(bool(output.y), function, "y must be given");
  check_shape(function, output.y, "y", {batch, seqlen_q, e.y_width}, "y must be [batch, seqlen_q, y_width]");
  check_last_axis(function, output.y, "y");
  check_shape(function, output.heads, "heads", {batch, seqlen_q, e.num_heads, e.head_dim_v},
              "heads must be [batch, seqlen_q, num_heads, head_dim_v]");
  check_shape(function, output.lse, "lse", {batch, e.num_heads, seqlen_q}, "lse must be [batch, num_heads, seqlen_q]");
  if (options.cache) check_cached_forward(function, layer, x.x_q, output, options);
}

template <class T>
void check_fill(const MultiHeadAttention<T>& layer, TensorView<const T, 3> x_k, TensorView<const T, 3> x_v,
                const KvCache& cache, const MultiHeadOptions<T>& options) {
  const char* function = "MultiHeadAttention::fill_cache";
  require(bool(x_k), function, "x_k must be given");
  check_keys(function, layer.extents(), x_k, x_v ? x_v : x_k);
  check_cache(function, layer, cache, x_k.shape(0));
  check_shape(function, options.positions_k, "positions_k", {x_k.shape(0), x_k.shape(1)},
              "positions_k must be [batch, seqlen_kv]");
  cache.check_append(function, x_k.shape(0), x_k.shape(1), options.attention.mask.seqlen_kv);
}

template <class T>
void check_backward(const MultiHeadAttention<T>& layer, const MultiHeadInput<T>& input,
                    const MultiHeadActivations<T>& activations, TensorView<const T, 3> dy,
                    const MultiHeadGradients<T>& gradients, const MultiHeadOptions<T>& options) {
  const char* function = "MultiHeadAttention::backward";
  const MultiHeadExtents& e = layer.extents();
  require<UnsupportedError>(!options.cache, function, "a cache must not be given", {}, "gradients need all tokens");
  const MultiHeadInput<T> x = complete(input, options);
  check_input(function, e, x);
  check_options(function, layer, x, options);
  const index_t batch = x.x_q.shape(0), seqlen_q = x.x_q.shape(1), seqlen_kv = x.x_k.shape(1);
  check_shape(function, activations.q.view(), "activations.q", {batch, seqlen_q, e.num_heads, e.head_dim},
              "activations must be those of forward on this input");
  check_shape(function, activations.k.view(), "activations.k", {batch, seqlen_kv, e.num_kv_heads, e.head_dim},
              "activations must be those of forward on this input");
  require(bool(dy), function, "dy must be given");
  check_shape(function, dy, "dy", {batch, seqlen_q, e.y_width}, "dy must be [batch, seqlen_q, y_width]");
  check_shape(function, gradients.dx_q, "dx_q", x.x_q.shape(), "dx_q must have the shape of x_q");
  check_shape(function, gradients.dx_k, "dx_k", x.x_k.shape(), "dx_k must have the shape of x_k");
  check_shape(function, gradients.dx_v, "dx_v", x.x_v.shape(), "dx_v must have the shape of x_v");
  require(input.x_k || !gradients.dx_k, function, "dx_k must go with x_k", {}, "without x_k it is part of dx_q");
  require(input.x_v || !gradients.dx_v, function, "dx_v must go with x_v", {}, "without x_v it is part of dx_k");
  check_last_axis(function, gradients.dx_q, "dx_q");
  check_last_axis(function, gradients.dx_k, "dx_k");
  check_last_axis(function, gradients.dx_v, "dx_v");
  const auto& cu = options.attention.packed.cu_seqlens_q;
  check_shape(function, gradients.dgates, "dgates", {cu ? cu.shape(0) - 1 : batch, e.num_heads},
              "dgates must be [sequences, num_heads]");
  if (!gradients.parameters) return;
  const MultiHeadParameters<T>& p = layer.parameters();
  MultiHeadParameters<T>& d = *gradients.parameters;
  const auto same = [&](const char* name, const auto& primal, const auto& gradient) {
    require(primal.shape() == gradient.shape(), function, "parameter gradients must have the shapes of the parameters",
            {{"parameter", name}, {"shape", text(primal.shape())}, {"gradient", text(gradient.shape())}},
            "zero_gradients() makes them");
  };
  same("w_q", p.w_q, d.w_q), same("b_q", p.b_q, d.b_q), same("w_k", p.w_k, d.w_k), same("b_k", p.b_k, d.b_k);
  same("w_v", p.w_v, d.w_v), same("b_v", p.b_v, d.b_v), same("w_o", p.w_o, d.w_o), same("b_o", p.b_o, d.b_o);
  same("q_norm", p.q_norm, d.q_norm), same("k_norm", p.k_norm, d.k_norm), same("sinks", p.sinks, d.sinks);
  same("bias_k", p.bias_k, d.bias_k), same("bias_v", p.bias_v, d.bias_v);
}

#define MULTIHEAD_INSTANTIATE(T)                                                                                       \
  template MultiHeadInput<T> complete(const MultiHeadInput<T>&, const MultiHeadOptions<T>&);                           \
  template void check_forward(const MultiHeadAttention<T>&, const MultiHeadInput<T>&, const MultiHeadOutput<T>&,       \
                              const MultiHeadOptions<T>&);                                                             \
  template void check_fill(const MultiHeadAttention<T>&, TensorView<const T, 3>, TensorView<const T, 3>,               \
                           const KvCache&, const MultiHeadOptions<T>&);                                                \
  template void check_backward(const MultiHeadAttention<T>&, const MultiHeadInput<T>&, const MultiHeadActivations<T>&, \
                               TensorView<const T, 3>, const MultiHeadGradients<T>&, const MultiHeadOptions<T>&);
MULTIHEAD_INSTANTIATE(float)
MULTIHEAD_INSTANTIATE(double)
#undef MULTIHEAD_INSTANTIATE

}  // namespace multihead::nn
