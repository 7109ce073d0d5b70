// C functions for bench/peers.py (ctypes): contiguous f32 buffers [B, S, H, D], one object that holds the threads.

#include "multihead/attention.hpp"
#include "multihead/threads.hpp"

namespace {

using multihead::index_t;
using multihead::TensorView;

}  // namespace

extern "C" {

/// As the lines of bench/shapes/*.txt.
struct MultiheadBenchShape {
  index_t batch, seqlen_q, seqlen_kv, num_heads, num_kv_heads, head_dim;
  int causal;
};

void* multihead_bench_threads(int num_threads) { return new multihead::Threads(num_threads); }
void multihead_bench_threads_free(void* threads) { delete static_cast<multihead::Threads*>(threads); }

/// out [B, Sq, H, D]; row_max and row_sum [B, H, Sq]. seqlen_kv [B] or null.
void multihead_bench_forward(const MultiheadBenchShape* s, const float* q, const float* k, const float* v,
                             const index_t* seqlen_kv, float* out, float* row_max, float* row_sum, void* threads) {
  multihead::AttentionOptions options;
  options.threads = static_cast<multihead::Threads*>(threads);
  if (s->causal) options.mask.causal = multihead::Causal::bottom_right;
  if (seqlen_kv) options.mask.seqlen_kv = TensorView<const index_t, 1>(seqlen_kv, {s->batch});
  const std::array<index_t, 4> q_shape{s->batch, s->seqlen_q, s->num_heads, s->head_dim};
  const std::array<index_t, 4> k_shape{s->batch, s->seqlen_kv, s->num_kv_heads, s->head_dim};
  const std::array<index_t, 3> rows{s->batch, s->num_heads, s->seqlen_q};
  multihead::attention_forward({.q = TensorView<const float, 4>(q, q_shape),
                                .k = TensorView<const float, 4>(k, k_shape),
                                .v = TensorView<const float, 4>(v, k_shape)},
                               {.out = TensorView<float, 4>(out, q_shape),
                                .row_max = TensorView<float, 3>(row_max, rows),
                                .row_sum = TensorView<float, 3>(row_sum, rows)},
                               options);
}

/// Gradients shaped as their primals, from what the forward left.
void multihead_bench_backward(const MultiheadBenchShape* s, const float* q, const float* k, const float* v,
                              const float* out, const float* row_max, const float* row_sum, const float* dout,
                              float* dq, float* dk, float* dv, void* threads) {
  multihead::AttentionOptions options;
  options.threads = static_cast<multihead::Threads*>(threads);
  if (s->causal) options.mask.causal = multihead::Causal::bottom_right;
  const std::array<index_t, 4> q_shape{s->batch, s->seqlen_q, s->num_heads, s->head_dim};
  const std::array<index_t, 4> k_shape{s->batch, s->seqlen_kv, s->num_kv_heads, s->head_dim};
  const std::array<index_t, 3> rows{s->batch, s->num_heads, s->seqlen_q};
  multihead::attention_backward({.q = TensorView<const float, 4>(q, q_shape),
                                 .k = TensorView<const float, 4>(k, k_shape),
                                 .v = TensorView<const float, 4>(v, k_shape),
                                 .out = TensorView<const float, 4>(out, q_shape),
                                 .row_max = TensorView<const float, 3>(row_max, rows),
                                 .row_sum = TensorView<const float, 3>(row_sum, rows),
                                 .dout = TensorView<const float, 4>(dout, q_shape)},
                                {.dq = TensorView<float, 4>(dq, q_shape),
                                 .dk = TensorView<float, 4>(dk, k_shape),
                                 .dv = TensorView<float, 4>(dv, k_shape)},
                                options);
}

}  // extern "C"
