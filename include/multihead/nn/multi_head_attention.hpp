// Multi-head attention as a layer (Vaswani et al. 2017, section 3.2.2), forward and backward.
//
//   q = x_q w_q^T + b_q   [B, Sq, H, D]        k, v alike from x_k, x_v   [B, Skv, Hkv, D | Dv]
//   q, k = rope(rms_norm(q)), rope(rms_norm(k))                           where configured
//   head[h] = attention(q[h], k[g], v[g])   [B, Sq, Dv]                   g = kv_head_of[h]
//   y = concat(gate[h] * head[h]) w_o^T + b_o   [B, Sq, E_y]
#pragma once

#include <cstdint>
#include <span>

#include "multihead/attention.hpp"
#include "multihead/kv_cache.hpp"
#include "multihead/nn/multi_head_parameters.hpp"

namespace multihead::nn {

/// x_k absent = x_q (self-attention), x_v absent = x_k. Any strides.
template <class T>
struct MultiHeadInput {
  TensorView<const T, 3> x_q;       ///< [B, Sq, E]
  TensorView<const T, 3> x_k = {};  ///< [B, Skv, E_k]
  TensorView<const T, 3> x_v = {};  ///< [B, Skv, E_v]
};

/// Absent views are not computed.
template <class T>
struct MultiHeadOutput {
  TensorView<T, 3> y;           ///< [B, Sq, E_y], last axis contiguous
  TensorView<T, 4> heads = {};  ///< [B, Sq, H, Dv] what each head read, before gates and w_o
  /// [B, H, Sq, Skv], or the part that attention.probs selects, before dropout. With bias_kv, zero_attn or sinks a
  /// row sums to 1 minus their share.
  TensorView<T, 4> probs = {};
  TensorView<T, 3> lse = {};  ///< [B, H, Sq]
};

template <class T>
struct MultiHeadOptions {
  /// Passed to attention_forward: mask, bias, slopes, softcap, packed, probs selection, threads (of the projections
  /// too), dropout seed and sequence ids. The layer sets dropout.probability, kv_head_of and, with a cache, the page
  /// table and seqlen_kv. Axes of H are the heads that remain.
  AttentionOptions attention = {};
  bool training = false;                          ///< false: the layer's dropout does nothing
  TensorView<const T, 1> gates = {};              ///< [H] factor on each head's output; unset = 1
  TensorView<const index_t, 2> positions_q = {};  ///< [B, Sq] for rope; unset = 0, 1, .. or on from the cache
  TensorView<const index_t, 2> positions_k = {};  ///< [B, Skv] for rope; unset = likewise
  /// Keys and values of earlier tokens. Those of x_q (as many as mask.seqlen_q says, where given) are appended, then
  /// all of the cache is attended to. In a causal model set Causal::bottom_right. x_k and x_v must be absent.
  KvCache* cache = nullptr;
  bool append_to_cache = true;  ///< false: attend to the cache as it is, filled by fill_cache
};

/// What a forward leaves for backward, and for those who look inside. Reused when the extents stay the same.
template <class T>
struct MultiHeadActivations {
  Tensor<T, 4> q_raw, k_raw;      ///< q, k before their norm, where there is one
  Tensor<T, 4> q;                 ///< [B, Sq, H, D] as attention saw it
  Tensor<T, 4> k;                 ///< [B, Skv, Hkv, D]
  Tensor<T, 4> v;                 ///< [B, Skv, Hkv, Dv]
  Tensor<T, 4> heads;             ///< [B, Sq, H, Dv] before gates and w_o
  Tensor<T, 3> row_max, row_sum;  ///< [B, H, Sq]
};

/// Gradients. Those of inputs are overwritten, those of parameters added to. Absent ones are not computed.
/// Where an input stood for another (x_k absent = x_q), its gradient holds the sum.
template <class T>
struct MultiHeadGradients {
  TensorView<T, 3> dx_q = {};                    ///< [B, Sq, E], last axis contiguous
  TensorView<T, 3> dx_k = {};                    ///< [B, Skv, E_k]
  TensorView<T, 3> dx_v = {};                    ///< [B, Skv, E_v]
  MultiHeadParameters<T>* parameters = nullptr;  ///< as MultiHeadAttention::zero_gradients() makes them
  TensorView<T, 2> dgates = {};                  ///< [B, H], per sequence; defined at a gate of 0 too
  BroadcastOutput dbias = {};                    ///< as in AttentionGradients
  OutputView<1> dslopes = {};                    ///< [H]
};

struct RemovedHeads {
  std::vector<index_t> removed;       ///< original numbers
  std::vector<index_t> already_gone;  ///< asked for, but removed earlier: nothing to do
};

enum class RemoveAll : std::uint8_t { refuse, allow };

/// T is float or double.
template <class T>
class MULTIHEAD_API MultiHeadAttention {
 public:
  /// All parameters are zero, norm weights one: initialize() or fill parameters().
  /// @throws ShapeError  if the configuration contradicts itself
  explicit MultiHeadAttention(const MultiHeadConfig& config);
  /// A layer from which heads were removed earlier.
  MultiHeadAttention(const MultiHeadConfig& config, const RemainingHeads& heads);

  const MultiHeadConfig& config() const { return config_; }  ///< as designed, before any removal
  const MultiHeadExtents& extents() const { return extents_; }
  const RemainingHeads& heads() const { return heads_; }
  index_t num_heads() const { return extents_.num_heads; }
  /// Packed weights are released, as parameters may now change.
  MultiHeadParameters<T>& parameters();
  const MultiHeadParameters<T>& parameters() const { return parameters_; }
  MultiHeadParameters<T> zero_gradients() const;  ///< zeros of the shapes of parameters()

  /// Weights, bias_k and bias_v uniform in +-sqrt(6 / (rows + columns)) (Glorot & Bengio 2010), biases and sinks 0,
  /// norm weights 1. The same numbers for the same seed.
  void initialize(std::uint64_t seed);

  /// Keeps a packed copy of the weights, which forward reads from now on: the same bits, faster, for layers that have
  /// learned. A parameters() reference from before must not be written through afterwards.
  void pack_weights(Executor* threads = nullptr);
  const PackedWeights<T>& packed_weights() const { return packed_; }  ///< empty unless they are packed

  /// Head h of those that remain; one that may be written lets go what was packed. @throws ShapeError unless 0 <= h <
  /// num_heads()
  HeadView<T> head(index_t h);
  HeadView<const T> head(index_t h) const;

  /// Removes heads by their original numbers. kv heads that no head uses any more go too. The layer then gives what
  /// it gave with these heads' gates at 0. Without heads y is b_o (or 0), which must be asked for.
  /// @throws ShapeError  if a number is not that of a designed head, or none would remain; nothing is removed then
  RemovedHeads remove_heads(std::span<const index_t> original_heads, RemoveAll all = RemoveAll::refuse);

  /// @throws ShapeError, UnsupportedError  before the output or the cache is written (but tokens that a full ring has
  ///         let go stay gone)
  void forward(const MultiHeadInput<T>& input, const MultiHeadOutput<T>& output,
               const MultiHeadOptions<T>& options = {}, MultiHeadActivations<T>* activations = nullptr) const;

  /// Appends the keys and values of x_k [B, S, E_k] and x_v (absent = x_k) to a cache, for cross-attention.
  /// Of options: positions_k, attention.threads, and attention.mask.seqlen_kv for the tokens present.
  void fill_cache(TensorView<const T, 3> x_k, TensorView<const T, 3> x_v, KvCache& cache,
                  const MultiHeadOptions<T>& options = {}) const;

  /// @param input  as given to the forward that filled `activations`, as are the options; a cache is refused
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
