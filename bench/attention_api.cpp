// C functions for bench/engines/multihead.py (ctypes): attention forward and backward over contiguous buffers.
#include "bench/threads_api.hpp"
#include "multihead/attention.hpp"

namespace multihead::bench {
namespace {

/// As bench/engines/multihead.py declares it. Null pointers are absent.
struct Attention {
  index_t batch, seqlen_q, seqlen_kv, num_heads, num_kv_heads, head_dim;
  index_t causal;          // 0 or 1: Causal::bottom_right
  index_t window_left;     // -1 = open
  index_t dtype;           // of q, k, v, out and the gradients: 0 f32, 1 bf16, 2 f16
  index_t heads_first;     // 1: [B, heads, S, D] instead of [B, S, heads, D], all of q, k, v, out and the gradients
  index_t bias_heads;      // 1 or H
  const void *q, *k, *v;   // [B, Sq, H, D], [B, Skv, Hkv, D]
  const index_t* seqlens;  // [B] keys present
  const index_t* offsets;  // [num_sequences + 1]: packed, B = 1
  index_t num_sequences;
  const float* bias;         // [bias_heads, Sq, Skv]
  const bool* visible;       // [Sq, Skv]
  void* out;                 // [B, Sq, H, D]
  float *probs, *lse;        // [B, H, Sq, Skv], [B, H, Sq]
  float *row_max, *row_sum;  // [B, H, Sq]
  const void* dout;          // [B, Sq, H, D]
  void *dq, *dk, *dv;        // as q, k, v
};

// A contiguous [B, S, heads, D] of one of three types; or [B, heads, S, D] seen as the former.
OutputView<4> view_of(void* data, index_t dtype, std::array<index_t, 4> shape, bool heads_first) {
  if (data == nullptr) return {};
  const DType element = dtype == 1 ? DType::bf16 : dtype == 2 ? DType::f16 : DType::f32;
  const auto [B, S, H, D] = shape;
  return heads_first ? bhsd(data, element, B, H, S, D) : bshd(data, element, B, S, H, D);
}

template <int R>
TensorView<float, R> rows_of(float* data, std::array<index_t, R> shape) {
  return data == nullptr ? TensorView<float, R>() : TensorView<float, R>(data, shape);
}

OutputView<4> queries(const Attention& a, const void* data) {
  return view_of(const_cast<void*>(data), a.dtype, {a.batch, a.seqlen_q, a.num_heads, a.head_dim}, a.heads_first != 0);
}

OutputView<4> keys(const Attention& a, const void* data) {
  return view_of(const_cast<void*>(data), a.dtype, {a.batch, a.seqlen_kv, a.num_kv_heads, a.head_dim},
                 a.heads_first != 0);
}

AttentionOptions options_of(const Attention& a, void* threads) {
  AttentionOptions options;
  options.threads = static_cast<Threads*>(threads);
  if (a.causal != 0) options.mask.causal = Causal::bottom_right;
  if (a.window_left >= 0) options.mask.window_left = a.window_left;
  if (a.seqlens) options.mask.seqlen_kv = {a.seqlens, {a.batch}};
  if (a.visible) options.mask.visible = TensorView<const bool, 2>(a.visible, {a.seqlen_q, a.seqlen_kv});
  if (a.bias) options.bias = TensorView<const float, 3>(a.bias, {a.bias_heads, a.seqlen_q, a.seqlen_kv});
  if (a.offsets) {
    const TensorView<const index_t, 1> offsets(a.offsets, {a.num_sequences + 1});
    options.packed = {.cu_seqlens_q = offsets, .cu_seqlens_kv = offsets};
  }
  return options;
}

}  // namespace

extern "C" void multihead_bench_forward(const Attention* a, void* threads) {
  const std::array<index_t, 3> rows{a->batch, a->num_heads, a->seqlen_q};
  attention_forward({.q = queries(*a, a->q), .k = keys(*a, a->k), .v = keys(*a, a->v)},
                    {.out = queries(*a, a->out),
                     .probs = rows_of<4>(a->probs, {a->batch, a->num_heads, a->seqlen_q, a->seqlen_kv}),
                     .row_max = rows_of<3>(a->row_max, rows),
                     .row_sum = rows_of<3>(a->row_sum, rows),
                     .lse = rows_of<3>(a->lse, rows)},
                    options_of(*a, threads));
}

/// From what the forward left.
extern "C" void multihead_bench_backward(const Attention* a, void* threads) {
  const std::array<index_t, 3> rows{a->batch, a->num_heads, a->seqlen_q};
  attention_backward({.q = queries(*a, a->q),
                      .k = keys(*a, a->k),
                      .v = keys(*a, a->v),
                      .out = queries(*a, a->out),
                      .row_max = rows_of<3>(a->row_max, rows),
                      .row_sum = rows_of<3>(a->row_sum, rows),
                      .dout = queries(*a, a->dout)},
                     {.dq = queries(*a, a->dq), .dk = keys(*a, a->dk), .dv = keys(*a, a->dv)}, options_of(*a, threads));
}

}  // namespace multihead::bench
