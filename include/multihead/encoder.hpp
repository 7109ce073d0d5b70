// An encoder of the BERT family out of a checkpoint: from token ids to hidden states, and to what its heads do.
//
//   x = norm(word[id] + position[i] + token_type[type])                      [tokens, E]
//   x = norm(x + attention(x));  x = norm(x + feed_forward(x))               once a layer
//
// Sequences of unequal length are run packed, one after the other: what is padded costs nothing and is never read.
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
  nn::Embedding<float> token_type;  ///< [num_token_types, E]; without data where there are none
  nn::LayerNorm<float> norm;
};

/// attention.head(h) gives one head's own w_q, w_k, w_v and its slice of w_o; attention.heads() says which of the
/// designed heads they are.
struct EncoderLayer {
  nn::MultiHeadAttention<float> attention;
  nn::LayerNorm<float> attention_norm;
  nn::FeedForward<float> feed_forward;
  nn::LayerNorm<float> feed_forward_norm;
};

/// B sequences side by side. Entries from lengths[b] on are never read.
struct EncoderInput {
  TensorView<const index_t, 2> token_ids;         ///< [B, S]
  TensorView<const index_t, 1> lengths = {};      ///< [B]; unset = S
  TensorView<const index_t, 2> token_types = {};  ///< [B, S]; unset = 0
};

/// A head of a layer, counted among those that the layer still has.
struct LayerHead {
  index_t layer = 0;
  index_t head = 0;

  friend bool operator==(const LayerHead&, const LayerHead&) = default;
};

/// What a forward keeps beside its result. Nothing else of size S x S is ever stored.
struct Capture {
  bool hidden = false;                               ///< the hidden states between layers
  bool probs = false;                                ///< who looks at whom
  bool head_outputs = false;                         ///< what each head read
  std::optional<std::vector<LayerHead>> heads = {};  ///< whose probs and outputs, distinct; unset = all
};

/// The captured heads of one layer, N of them. Entries of padding are 0.
struct CapturedHeads {
  std::vector<index_t> heads;  ///< [N] which of the layer's remaining heads
  Tensor<float, 4> probs;      ///< [B, N, S, S]; without data unless requested
  Tensor<float, 4> outputs;    ///< [B, S, N, Dv]; without data unless requested
};

/// Entries of padding are 0.
struct EncoderOutput {
  Tensor<float, 3> last_hidden;          ///< [B, S, E]
  std::vector<Tensor<float, 3>> hidden;  ///< L + 1 of [B, S, E]: after the embeddings, after each layer. If captured
  std::vector<CapturedHeads> heads;      ///< one per layer. If probs or head_outputs are captured
};

struct EncoderOptions {
  Capture capture = {};
  /// One view a layer, [H] of that layer: a factor on each head's output, before w_o. Absent views and an empty span
  /// stand for 1.
  std::span<const TensorView<const float, 1>> gates = {};
  Executor* threads = nullptr;
};

/// Movable; one object may serve many threads, as forward leaves it unchanged.
class MULTIHEAD_API Encoder {
 public:
  /// Zeros in the place of parameters. `heads` has one entry per layer; an empty one of `original_heads` is a layer that
  /// lost them all.
  Encoder(const EncoderConfig& config, std::span<const nn::RemainingHeads> heads);

  const EncoderConfig& config() const { return config_; }
  /// The longest sequence forward takes.
  index_t max_tokens() const { return config_.max_tokens(); }

  EncoderEmbeddings& embeddings() { return embeddings_; }
  const EncoderEmbeddings& embeddings() const { return embeddings_; }
  std::vector<EncoderLayer>& layers() { return layers_; }
  const std::vector<EncoderLayer>& layers() const { return layers_; }

  /// Keeps packed copies of all weights of the layers, which doubles their memory: forward gives the same bits, faster.
  /// Worth it from a few forwards on. Call it again when weights have changed.
  void pack_weights(Executor* threads = nullptr);

  /// @throws ShapeError  if a sequence is longer than max_tokens(), an id or type has no row, or shapes disagree
  ///
  /// Memory   a few buffers of [tokens, E], one of [512, hidden_features], and what is captured.
  /// Threads  the result is bitwise equal for any thread count and any batch mates.
  EncoderOutput forward(const EncoderInput& input, const EncoderOptions& options = {}) const;

 private:
  EncoderConfig config_;
  EncoderEmbeddings embeddings_;
  std::vector<EncoderLayer> layers_;
};

/// Reads config.json and the safetensors files of a Hugging Face folder: BERT (MiniLM and others of its names),
/// RoBERTa, DistilBERT; f32, f64, bf16 or f16; with or without the family's prefix. How many heads each layer has is
/// read from the tensors. docs/checkpoints.md lists the names.
///
/// @throws CheckpointError   if a file is missing or damaged, a tensor is missing, shapes contradict the config, or a
///                           weight is not finite
/// @throws UnsupportedError  as load_encoder_config
MULTIHEAD_API Encoder load_encoder(const std::filesystem::path& folder);

/// Sequences of unequal length as one batch, filled up with `pad_id`.
struct TokenBatch {
  Tensor<index_t, 2> token_ids;  ///< [B, S], S = the longest
  Tensor<index_t, 1> lengths;    ///< [B]

  EncoderInput input() const& { return {.token_ids = token_ids, .lengths = lengths}; }
  EncoderInput input() const&& = delete;  // it would dangle
};
MULTIHEAD_API TokenBatch pad_batch(std::span<const std::vector<index_t>> sequences, index_t pad_id = 0);

}  // namespace multihead
