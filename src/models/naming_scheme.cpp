#include "models/naming_scheme.hpp"

#include <algorithm>

namespace multihead {
namespace {

constexpr std::string_view kBertTypes[] = {"bert"};
constexpr std::string_view kBertPrefixes[] = {"", "bert."};
constexpr std::string_view kRobertaTypes[] = {"roberta", "xlm-roberta", "camembert"};
constexpr std::string_view kRobertaPrefixes[] = {"", "roberta."};
constexpr std::string_view kDistilbertTypes[] = {"distilbert"};
constexpr std::string_view kDistilbertPrefixes[] = {"", "distilbert."};

constexpr ConfigNames kBertConfig = {
    .d_model = "hidden_size",
    .num_layers = "num_hidden_layers",
    .num_heads = "num_attention_heads",
    .hidden_features = "intermediate_size",
    .activation = "hidden_act",
    .norm_epsilon = "layer_norm_eps",
    .num_token_types = "type_vocab_size",
};

constexpr TensorNames kBertTensors = {
    .word = "embeddings.word_embeddings",
    .position = "embeddings.position_embeddings",
    .token_type = "embeddings.token_type_embeddings",
    .embedding_norm = "embeddings.LayerNorm",
    .query = "encoder.layer.#.attention.self.query",
    .key = "encoder.layer.#.attention.self.key",
    .value = "encoder.layer.#.attention.self.value",
    .attention_out = "encoder.layer.#.attention.output.dense",
    .attention_norm = "encoder.layer.#.attention.output.LayerNorm",
    .up = "encoder.layer.#.intermediate.dense",
    .down = "encoder.layer.#.output.dense",
    .feed_forward_norm = "encoder.layer.#.output.LayerNorm",
};

constexpr ConfigNames kDistilbertConfig = {
    .d_model = "dim",
    .num_layers = "n_layers",
    .num_heads = "n_heads",
    .hidden_features = "hidden_dim",
    .activation = "activation",
    .norm_epsilon = "",
    .num_token_types = "",
};

constexpr TensorNames kDistilbertTensors = {
    .word = "embeddings.word_embeddings",
    .position = "embeddings.position_embeddings",
    .token_type = "",
    .embedding_norm = "embeddings.LayerNorm",
    .query = "transformer.layer.#.attention.q_lin",
    .key = "transformer.layer.#.attention.k_lin",
    .value = "transformer.layer.#.attention.v_lin",
    .attention_out = "transformer.layer.#.attention.out_lin",
    .attention_norm = "transformer.layer.#.sa_layer_norm",
    .up = "transformer.layer.#.ffn.lin1",
    .down = "transformer.layer.#.ffn.lin2",
    .feed_forward_norm = "transformer.layer.#.output_layer_norm",
};

constexpr NamingScheme kSchemes[] = {
    {kBertTypes, kBertPrefixes, kBertConfig, kBertTensors, false},
    {kRobertaTypes, kRobertaPrefixes, kBertConfig, kBertTensors, true},
    {kDistilbertTypes, kDistilbertPrefixes, kDistilbertConfig, kDistilbertTensors, false},
};

}  // namespace

std::span<const NamingScheme> naming_schemes() { return kSchemes; }

const NamingScheme* find_naming_scheme(std::string_view model_type) {
  for (const NamingScheme& scheme : kSchemes) {
    if (std::ranges::find(scheme.model_types, model_type) != scheme.model_types.end()) return &scheme;
  }
  return nullptr;
}

}  // namespace multihead
