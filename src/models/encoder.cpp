#include "multihead/encoder.hpp"

#include <algorithm>
#include <numeric>

#include "core/ceil_div.hpp"
#include "core/require.hpp"
#include "models/packed_input.hpp"
#include "models/parameter_walk.hpp"

namespace multihead {
namespace {

constexpr const char* kFunction = "Encoder::forward";

EncoderLayer make_layer(const EncoderConfig& config, const nn::RemainingHeads& heads) {
  const nn::MultiHeadConfig attention{
      .d_model = config.d_model, .num_heads = config.num_heads, .head_dim = config.head_dim};
  return {.attention = nn::MultiHeadAttention<float>(attention, heads),
          .attention_norm = nn::LayerNorm<float>(config.d_model, config.norm_epsilon),
          .feed_forward = nn::FeedForward<float>(config.d_model, config.hidden_features, config.activation),
          .feed_forward_norm = nn::LayerNorm<float>(config.d_model, config.norm_epsilon)};
}

// The captured heads of each layer, with memory for their results.
std::vector<CapturedHeads> make_captured(const Encoder& encoder, const Capture& capture, index_t batch,
                                         index_t seqlen) {
  std::vector<CapturedHeads> captured;
  if (!capture.probs && !capture.head_outputs) return captured;
  captured.resize(encoder.layers().size());
  if (capture.heads) {
    for (const auto& [layer, head] : *capture.heads) {
      const bool there = layer >= 0 && layer < encoder.config().num_layers && head >= 0 &&
                         head < encoder.layers()[static_cast<std::size_t>(layer)].attention.num_heads();
      require(there, kFunction, "a captured head must be one of its layer's", {{"layer", layer}, {"head", head}});
      std::vector<index_t>& heads = captured[static_cast<std::size_t>(layer)].heads;
      require(std::ranges::find(heads, head) == heads.end(), kFunction, "captured heads must be distinct",
              {{"layer", layer}, {"head", head}});
      heads.push_back(head);
    }
  }
  for (std::size_t i = 0; i < captured.size(); ++i) {
    CapturedHeads& layer = captured[i];
    const nn::MultiHeadExtents& extents = encoder.layers()[i].attention.extents();
    if (!capture.heads) {
      layer.heads.resize(static_cast<std::size_t>(extents.num_heads));
      std::iota(layer.heads.begin(), layer.heads.end(), index_t{0});
    }
    const auto count = static_cast<index_t>(layer.heads.size());
    if (capture.probs) layer.probs = Tensor<float, 4>({batch, count, seqlen, seqlen});
    if (capture.head_outputs) layer.outputs = Tensor<float, 4>({batch, seqlen, count, extents.head_dim_v});
  }
  return captured;
}

// Buffers that all layers share.
struct Buffers {
  Tensor<float, 2> x, branch;  // [tokens, E]
  nn::MultiHeadActivations<float> attention;

  Buffers(index_t tokens, index_t d_model) : x({tokens, d_model}), branch({tokens, d_model}) {}

  // x = norm(x + branch), a few rows at a time, so that they are in the cache for both steps
  void join(const nn::LayerNorm<float>& norm, Executor* threads) {
    constexpr index_t kRows = 16;
    const index_t tokens = x.shape(0), features = x.shape(1);
    run_tasks(threads, ceil_div(tokens, kRows), [&](index_t task, int) {
      const index_t begin = task * kRows, end = std::min(tokens, begin + kRows);
      for (index_t i = begin * features; i < end * features; ++i) x.data()[i] += branch.data()[i];
      const TensorView<float, 2> rows = x.view().slice(0, begin, end);
      norm.forward(rows, rows);
    });
  }
};

// [1, tokens, E]
template <class T>
TensorView<T, 3> as_one_sequence(TensorView<T, 2> x) {
  return {x.data(), {1, x.shape(0), x.shape(1)}};
}

// Copies rows [tokens, ..] to their places in [B, S, ..].
void unpack(const PackedInput& input, TensorView<const float, 2> from, TensorView<float, 3> to) {
  for (index_t b = 0; b < input.batch(); ++b) {
    for (index_t i = 0; i < input.length(b); ++i) {
      std::copy_n(&from(input.begin(b) + i, 0), from.shape(1), &to(b, i, 0));
    }
  }
}

void keep_outputs(const PackedInput& input, const Tensor<float, 4>& heads, CapturedHeads& captured) {
  for (index_t b = 0; b < input.batch(); ++b) {
    for (index_t i = 0; i < input.length(b); ++i) {
      for (std::size_t n = 0; n < captured.heads.size(); ++n) {
        std::copy_n(&heads(0, input.begin(b) + i, captured.heads[n], 0), heads.shape(3),
                    &captured.outputs(b, i, static_cast<index_t>(n), 0));
      }
    }
  }
}

void attend(const EncoderLayer& layer, const PackedInput& input, TensorView<const float, 1> gates, Executor* threads,
            Buffers& buffers, CapturedHeads* captured) {
  nn::MultiHeadOptions<float> options;
  options.attention.packed = {.cu_seqlens_q = input.offsets, .cu_seqlens_kv = input.offsets};
  options.attention.threads = threads;
  options.gates = gates;
  nn::MultiHeadOutput<float> output{.y = as_one_sequence(buffers.branch.view())};
  if (captured != nullptr && captured->probs.size() > 0) {
    options.attention.probs.heads = {captured->heads.data(), {static_cast<index_t>(captured->heads.size())}};
    output.probs = captured->probs.view().slice(2, 0, input.longest()).slice(3, 0, input.longest());
  }
  layer.attention.forward({.x_q = as_one_sequence<const float>(buffers.x.view())}, output, options, &buffers.attention);
  if (captured != nullptr && captured->outputs.size() > 0) keep_outputs(input, buffers.attention.heads, *captured);
}

}  // namespace

Encoder::Encoder(const EncoderConfig& config, std::span<const nn::RemainingHeads> heads)
    : config_(config),
      embeddings_{.word = nn::Embedding<float>(config.vocab_size, config.d_model),
                  .position = nn::Embedding<float>(config.max_positions, config.d_model),
                  .token_type = nn::Embedding<float>(config.num_token_types, config.d_model),
                  .norm = nn::LayerNorm<float>(config.d_model, config.norm_epsilon)} {
  require(static_cast<index_t>(heads.size()) == config.num_layers, "Encoder", "heads must have one entry per layer",
          {{"heads", heads.size()}, {"num_layers", config.num_layers}});
  for (const nn::RemainingHeads& of_layer : heads) layers_.push_back(make_layer(config, of_layer));
}

Encoder Encoder::clone() const {
  std::vector<nn::RemainingHeads> heads;
  for (const EncoderLayer& layer : layers_) heads.push_back(layer.attention.heads());
  Encoder copy(config_, heads);
  const NamingScheme& scheme = naming_schemes().front();  // any: what parameters are called does not matter
  std::vector<std::span<const float>> originals;
  for_each_parameter(scheme, *this, [&](const std::string&, const auto& from) {
    originals.emplace_back(from.data(), static_cast<std::size_t>(from.size()));
  });
  std::size_t next = 0;
  for_each_parameter(scheme, copy,
                     [&](const std::string&, auto& to) { std::ranges::copy(originals[next++], to.data()); });
  return copy;
}

void Encoder::pack_weights(Executor* threads) {
  for (EncoderLayer& layer : layers_) {
    layer.attention.pack_weights(threads);
    layer.feed_forward.pack_weights(threads);
  }
}

EncoderOutput Encoder::forward(const EncoderInput& given, const EncoderOptions& options) const {
  const PackedInput input(given, config_, kFunction);
  require(options.gates.empty() || options.gates.size() == layers_.size(), kFunction,
          "gates must have one entry per layer", {{"gates", options.gates.size()}, {"num_layers", layers_.size()}});
  const index_t batch = given.token_ids.shape(0), seqlen = given.token_ids.shape(1);
  Executor* const threads = options.threads;
  EncoderOutput output;
  output.heads = make_captured(*this, options.capture, batch, seqlen);

  Buffers buffers(input.num_tokens(), config_.d_model);
  const auto unpacked = [&] {
    Tensor<float, 3> hidden({batch, seqlen, config_.d_model});
    unpack(input, buffers.x, hidden);
    return hidden;
  };
  embeddings_.word.forward(input.token_ids, buffers.x);
  if (config_.num_token_types > 0) embeddings_.token_type.forward(input.token_types, buffers.x, true);
  embeddings_.position.forward(input.positions, buffers.x, true);
  embeddings_.norm.forward(buffers.x, buffers.x, threads);
  if (options.capture.hidden) output.hidden.push_back(unpacked());

  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const EncoderLayer& layer = layers_[i];
    attend(layer, input, options.gates.empty() ? TensorView<const float, 1>() : options.gates[i], threads, buffers,
           output.heads.empty() ? nullptr : &output.heads[i]);
    buffers.join(layer.attention_norm, threads);
    layer.feed_forward.forward(buffers.x, buffers.branch, threads);
    buffers.join(layer.feed_forward_norm, threads);
    if (options.capture.hidden) output.hidden.push_back(unpacked());
  }
  output.last_hidden = unpacked();
  return output;
}

}  // namespace multihead
