// An encoder of the BERT family, loaded from a checkpoint: token ids -> hidden states, per-head probs and outputs.
//
//   x = norm(word[id] + position[i] + token_type[type])                      [tokens, E]
//   x = norm(x + attention(x));  x = norm(x + feed_forward(x))               in each layer
//
// Sequences of different lengths are computed without their padding, which therefore costs nothing and is never read.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "multihead/encoder_config.hpp"
#include "multihead/nn/embedding.hpp"
#include "multihead/nn/feed_forward.hpp"
#include "multihead/nn/layer_norm.hpp"
#include "multihead/nn/multi_head_attention.hpp"

namespace multihead {

struct EncoderEmbeddings {
  nn::Embedding<float> word;        ///< [vocab_size, E]
  nn::Embedding<float> position;    ///< [max_positions, E]
  nn::Embedding<float> token_type;  ///< [num_token_types, E]; without data if the model has none
  nn::LayerNorm<float> norm;
};

/// attention.head(h) returns the slices of w_q, w_k, w_v and w_o that belong to head h. attention.heads() says which
/// heads of the original model they are.
struct EncoderLayer {
  nn::MultiHeadAttention<float> attention;
  nn::LayerNorm<float> attention_norm;
  nn::FeedForward<float> feed_forward;
  nn::LayerNorm<float> feed_forward_norm;
};

/// A batch of B sequences. Of sequence b only the first lengths[b] entries are read.
struct EncoderInput {
  TensorView<const index_t, 2> token_ids;         ///< [B, S]
  TensorView<const index_t, 1> lengths = {};      ///< [B]; unset = S
  TensorView<const index_t, 2> token_types = {};  ///< [B, S]; unset = 0
};

/// A head of a layer; `head` counts the heads that the layer has now, after any removal.
struct LayerHead {
  index_t layer = 0;
  index_t head = 0;

  friend bool operator==(const LayerHead&, const LayerHead&) = default;
};

/// Which intermediate results a forward returns. Without `probs` no [S, S] matrix is ever stored.
struct Capture {
  bool hidden = false;                               ///< the hidden states between layers
  bool probs = false;                                ///< the attention probabilities
  bool head_outputs = false;                         ///< the output of each head, before w_o
  std::optional<std::vector<LayerHead>> heads = {};  ///< of which heads, without repetition; unset = all
};

/// The captured heads of one layer, N of them. Entries of padding are 0.
struct CapturedHeads {
  std::vector<index_t> heads;  ///< [N] their indices among the heads of the layer
  Tensor<float, 4> probs;      ///< [B, N, S, S]; without data unless requested
  Tensor<float, 4> outputs;    ///< [B, S, N, Dv]; without data unless requested
};

/// Entries of padding are 0.
struct EncoderOutput {
  Tensor<float, 3> last_hidden;          ///< [B, S, E]
  std::vector<Tensor<float, 3>> hidden;  ///< if captured: L + 1 of [B, S, E], after the embeddings and each layer
  std::vector<CapturedHeads> heads;      ///< if probs or head_outputs are captured: one entry per layer
};

struct EncoderOptions {
  Capture capture = {};
  /// One view per layer, [H] of that layer: factors by which the outputs of its heads are multiplied, before w_o. For
  /// an absent view, and for an empty span, all are 1.
  std::span<const TensorView<const float, 1>> gates = {};
  Executor* threads = nullptr;
};

/// Movable. Several threads may call forward() of one object at once, as it is const.
class MULTIHEAD_API Encoder {
 public:
  /// All parameters are zero. `heads` has one entry per layer; a layer from which all heads were removed has an entry
  /// with empty `original_heads`.
  Encoder(const EncoderConfig& config, std::span<const nn::RemainingHeads> heads);

  /// A copy of the parameters; packed weights are not copied.
  Encoder clone() const;

  const EncoderConfig& config() const { return config_; }
  /// Number of tokens of the longest sequence that forward accepts.
  index_t max_tokens() const { return config_.max_tokens(); }

  EncoderEmbeddings& embeddings() { return embeddings_; }
  const EncoderEmbeddings& embeddings() const { return embeddings_; }
  std::vector<EncoderLayer>& layers() { return layers_; }
  const std::vector<EncoderLayer>& layers() const { return layers_; }

  /// Keeps packed copies of all weights of the layers: forward is faster, its results are bit-identical, and weights
  /// take twice the memory. Pays off after a few forwards. Must be called again when weights have changed.
  void pack_weights(Executor* threads = nullptr);

  /// @throws ShapeError  if a sequence is longer than max_tokens(), an id or type has no embedding, or shapes disagree
  ///
  /// Memory   a few buffers of [tokens, E], one of [512, hidden_features], and the captured results.
  /// Threads  results are bit-identical for any number of threads and whatever else is in the batch.
  EncoderOutput forward(const EncoderInput& input, const EncoderOptions& options = {}) const;

 private:
  EncoderConfig config_;
  EncoderEmbeddings embeddings_;
  std::vector<EncoderLayer> layers_;
};

/// Reads config.json and the safetensors files of a Hugging Face folder: BERT (also MiniLM and others with the same
/// tensor names), RoBERTa or DistilBERT in f32, f64, bf16 or f16, with or without a prefix such as "bert.". The number
/// of heads of each layer follows from the shapes of its tensors. docs/checkpoints.md lists the names.
///
/// @throws CheckpointError   if a file is missing or damaged, a tensor is missing, shapes contradict the config, or a
///                           weight is not finite
/// @throws UnsupportedError  as load_encoder_config
MULTIHEAD_API Encoder load_encoder(const std::filesystem::path& folder);

/// Sequences of different lengths as one batch, the shorter ones padded with `pad_id`.
struct TokenBatch {
  Tensor<index_t, 2> token_ids;  ///< [B, S], S = the longest length
  Tensor<index_t, 1> lengths;    ///< [B]

  EncoderInput input() const& { return {.token_ids = token_ids, .lengths = lengths}; }
  EncoderInput input() const&& = delete;  // it would dangle
};
MULTIHEAD_API TokenBatch pad_batch(std::span<const std::vector<index_t>> sequences, index_t pad_id = 0);

}  // namespace multihead
