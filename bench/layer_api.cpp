// C functions for bench/engines/multihead.py (ctypes): the layer, and the encoder of a checkpoint.
#include <algorithm>

#include "bench/threads_api.hpp"
#include "multihead/text_encoder.hpp"

namespace multihead::bench {
namespace {

using Layer = nn::MultiHeadAttention<float>;

/// Parameters in the order of MultiHeadParameters: weights [E, E], biases [E].
struct LayerParameters {
  const float *w_q, *b_q, *w_k, *b_k, *w_v, *b_v, *w_o, *b_o;
};

}  // namespace

extern "C" void* multihead_bench_layer(index_t d_model, index_t num_heads, const LayerParameters* given) {
  auto layer = std::make_unique<Layer>(nn::MultiHeadConfig{.d_model = d_model, .num_heads = num_heads});
  nn::MultiHeadParameters<float>& own = layer->parameters();
  const auto copy = [](const float* from, auto& to) { std::copy_n(from, to.size(), to.data()); };
  copy(given->w_q, own.w_q), copy(given->b_q, own.b_q);
  copy(given->w_k, own.w_k), copy(given->b_k, own.b_k);
  copy(given->w_v, own.w_v), copy(given->b_v, own.b_v);
  copy(given->w_o, own.w_o), copy(given->b_o, own.b_o);
  layer->pack_weights();
  return layer.release();
}

/// x and y [batch, seqlen, E]
extern "C" void multihead_bench_layer_forward(const void* layer, index_t batch, index_t seqlen, const float* x,
                                              float* y, void* threads) {
  const auto* const self = static_cast<const Layer*>(layer);
  const std::array<index_t, 3> shape{batch, seqlen, self->extents().d_model};
  nn::MultiHeadOptions<float> options;
  options.attention.threads = static_cast<Threads*>(threads);
  self->forward({.x_q = TensorView<const float, 3>(x, shape)}, {.y = TensorView<float, 3>(y, shape)}, options);
}

extern "C" void* multihead_bench_encoder(const char* folder) {
  auto self = std::make_unique<TextEncoder>(load_text_encoder(folder));
  self->encoder.pack_weights();
  return self.release();
}

/// token_ids [batch, seqlen], lengths [batch]; embeddings [batch, E]
extern "C" void multihead_bench_encode(const void* encoder, index_t batch, index_t seqlen, const index_t* token_ids,
                                       const index_t* lengths, float* embeddings, void* threads) {
  const auto* const self = static_cast<const TextEncoder*>(encoder);
  const TensorView<const index_t, 1> lengths_view(lengths, {batch});
  const EncoderOutput output =
      self->encoder.forward({.token_ids = {token_ids, {batch, seqlen}}, .lengths = lengths_view},
                            {.threads = static_cast<Threads*>(threads)});
  const Tensor<float, 2> pooled = pool(output.last_hidden, lengths_view, self->pooling);
  std::copy_n(pooled.data(), pooled.size(), embeddings);
}

}  // namespace multihead::bench
