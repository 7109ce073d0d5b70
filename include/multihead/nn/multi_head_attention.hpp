// Multi-head attention as a layer (Vaswani et al. 2017, section 3.2.2), forward and backward.
//
//   q = x_q w_q^T + b_q   [B, Sq, H, D]        k, v likewise from x_k, x_v   [B, Skv, Hkv, D | Dv]
//   q, k = rope(rms_norm(q)), rope(rms_norm(k))                           if configured
//   head[h] = attention(q[h], k[g], v[g])   [B, Sq, Dv]                   g = kv_head_of[h]
//   y = concat(gate[h] * head[h]) w_o^T + b_o   [B, Sq, E_y]
#pragma once

#include <cstdint>
#include <span>

#include "multihead/attention.hpp"
#include "multihead/kv_cache.hpp"
#include "multihead/nn/multi_head_parameters.hpp"

namespace multihead::nn {

/// If x_k is absent, x_q is used (self-attention); if x_v is absent, x_k. Any strides.
template <class T>
struct MultiHeadInput {
  TensorView<const T, 3> x_q;       ///< [B, Sq, E]
  TensorView<const T, 3> x_k = {};  ///< [B, Skv, E_k]
  TensorView<const T, 3> x_v = {};  ///< [B, Skv, E_v]
};

/// Results whose view is absent are not computed.
template <class T>
struct MultiHeadOutput {
  TensorView<T, 3> y;           ///< [B, Sq, E_y], last axis contiguous
  TensorView<T, 4> heads = {};  ///< [B, Sq, H, Dv] the output of each head, before gates and w_o
  /// [B, H, Sq, Skv], or the part that attention.probs selects, before dropout. The probabilities of bias_kv, zero_attn
  /// and sinks are not included, so that with these a row sums to less than 1.
  TensorView<T, 4> probs = {};
  TensorView<T, 3> lse = {};  ///< [B, H, Sq]
};

template <class T>
struct MultiHeadOptions {
  /// Passed to attention_forward: mask, bias, slopes, softcap, packed, probs selection, dropout seed and sequence ids,
  /// and threads, which the projections use too. The layer itself sets dropout.probability, kv_head_of and, with a
  /// cache, page_table and seqlen_kv. Axes of extent H are those of the remaining heads.
  AttentionOptions attention = {};
  bool training = false;                          ///< whether dropout is applied
  TensorView<const T, 1> gates = {};              ///< [H] factors of the outputs of the heads; absent = 1
  TensorView<const index_t, 2> positions_q = {};  ///< [B, Sq] for rope; absent = 0, 1, ..., after those of a cache
  TensorView<const index_t, 2> positions_k = {};  ///< [B, Skv] for rope; absent = likewise
  /// Keys and values of earlier tokens. Those of x_q are appended (only mask.seqlen_q of each sequence, if given); then
  /// x_q attends to the whole cache. For causal models set Causal::bottom_right. x_k and x_v must be absent.
  KvCache* cache = nullptr;
  bool append_to_cache = true;  ///< false: attend to a cache that fill_cache has filled
};

/// What forward stores for backward and for inspection. The memory is reused if the extents do not change.
template <class T>
struct MultiHeadActivations {
  Tensor<T, 4> q_raw, k_raw;      ///< q, k before q_norm, k_norm, if the layer has them
  Tensor<T, 4> q;                 ///< [B, Sq, H, D] after norm and rope
  Tensor<T, 4> k;                 ///< [B, Skv, Hkv, D] after norm and rope
  Tensor<T, 4> v;                 ///< [B, Skv, Hkv, Dv]
  Tensor<T, 4> heads;             ///< [B, Sq, H, Dv] before gates and w_o
  Tensor<T, 3> row_max, row_sum;  ///< [B, H, Sq]
};

/// Gradients. Those of the parameters are added to, all others are overwritten. Absent ones are not computed.
/// If an input was used in place of another (x_k absent = x_q), its gradient is the sum of both.
template <class T>
struct MultiHeadGradients {
  TensorView<T, 3> dx_q = {};                    ///< [B, Sq, E], last axis contiguous
  TensorView<T, 3> dx_k = {};                    ///< [B, Skv, E_k]
  TensorView<T, 3> dx_v = {};                    ///< [B, Skv, E_v]
  MultiHeadParameters<T>* parameters = nullptr;  ///< initially from MultiHeadAttention::zero_gradients()
  TensorView<T, 2> dgates = {};                  ///< [B, H], per sequence; also correct for a gate of 0
  BroadcastOutput dbias = {};                    ///< as in AttentionGradients
  OutputView<1> dslopes = {};                    ///< [H]
};

struct RemovedHeads {
  std::vector<index_t> removed;       ///< original numbers of the heads removed by this call
  std::vector<index_t> already_gone;  ///< original numbers of requested heads that had been removed earlier
};

enum class RemoveAll : std::uint8_t { refuse, allow };

/// T is float or double.
template <class T>
class MULTIHEAD_API MultiHeadAttention {
 public:
  /// All parameters are zero, norm weights one. Call initialize(), or fill parameters().
  /// @throws ShapeError  if the configuration contradicts itself
  explicit MultiHeadAttention(const MultiHeadConfig& config);
  /// A layer from which heads have been removed.
  MultiHeadAttention(const MultiHeadConfig& config, const RemainingHeads& heads);

  const MultiHeadConfig& config() const { return config_; }  ///< before any removal of heads
  const MultiHeadExtents& extents() const { return extents_; }
  const RemainingHeads& heads() const { return heads_; }
  index_t num_heads() const { return extents_.num_heads; }
  /// Releases the packed weights, as the caller may change the parameters.
  MultiHeadParameters<T>& parameters();
  const MultiHeadParameters<T>& parameters() const { return parameters_; }
  MultiHeadParameters<T> zero_gradients() const;  ///< zeros with the shapes of parameters()

  /// Weights, bias_k and bias_v are uniform in +-sqrt(6 / (rows + columns)) (Glorot & Bengio 2010), biases and sinks 0,
  /// norm weights 1. The same seed gives the same numbers.
  void initialize(std::uint64_t seed);

  /// Packs a copy of the weights for inference: forward is faster and its results are bit-identical. Afterwards do not
  /// write through a reference that parameters() returned earlier: forward would not see the change.
  void pack_weights(Executor* threads = nullptr);
  const PackedWeights<T>& packed_weights() const { return packed_; }  ///< empty if they are not packed

  /// Head h of those that remain. The writable view releases the packed weights.
  /// @throws ShapeError  unless 0 <= h < num_heads()
  HeadView<T> head(index_t h);
  HeadView<const T> head(index_t h) const;

  /// Removes heads, given by their original numbers, and kv heads that no head uses any more. Results are then those of
  /// the layer with the gates of these heads set to 0. Removing all, so that y = b_o (or 0), needs RemoveAll::allow.
  /// @throws ShapeError  if there is no such original head, or none would remain; nothing is removed in that case
  RemovedHeads remove_heads(std::span<const index_t> original_heads, RemoveAll all = RemoveAll::refuse);

  /// @throws ShapeError, UnsupportedError  before output or cache are written, except that tokens may already have been
  ///         evicted from a full ring
  void forward(const MultiHeadInput<T>& input, const MultiHeadOutput<T>& output,
               const MultiHeadOptions<T>& options = {}, MultiHeadActivations<T>* activations = nullptr) const;

  /// Appends the keys and values of x_k [B, S, E_k] and x_v (absent = x_k) to a cache, for cross-attention. It uses the
  /// options positions_k, attention.threads, and attention.mask.seqlen_kv: the number of valid tokens.
  void fill_cache(TensorView<const T, 3> x_k, TensorView<const T, 3> x_v, KvCache& cache,
                  const MultiHeadOptions<T>& options = {}) const;

  /// @param input  that of the forward call that filled `activations`, as `options`; options.cache must be null
  /// @param dy     [B, Sq, E_y], the gradient of y
  void backward(const MultiHeadInput<T>& input, const MultiHeadActivations<T>& activations, TensorView<const T, 3> dy,
                const MultiHeadGradients<T>& gradients, const MultiHeadOptions<T>& options = {}) const;

 private:
  void keep_heads(const std::vector<index_t>& kept, const std::vector<index_t>& kept_kv);

  MultiHeadConfig config_;
  MultiHeadExtents extents_;
  RemainingHeads heads_;
  MultiHeadParameters<T> parameters_;
  PackedWeights<T> packed_;
};

}  // namespace multihead::nn
