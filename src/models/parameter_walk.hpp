// Every parameter of an encoder with its name in a checkpoint.
#pragma once

#include <string>

#include "models/naming_scheme.hpp"
#include "multihead/encoder.hpp"

namespace multihead {

/// A name of the table, with "#" replaced by the number of the layer.
inline std::string layer_name(std::string_view name, index_t layer) {
  const std::size_t at = name.find('#');
  return std::string(name.substr(0, at)) + std::to_string(layer) + std::string(name.substr(at + 1));
}

/// Calls visit(name, tensor) for the weights of an attention layer; `Parameters` is nn::MultiHeadParameters, const or
/// not.
template <class Parameters, class Visit>
void for_each_attention_parameter(const NamingScheme& scheme, Parameters& p, index_t layer, const Visit& visit) {
  const auto both = [&](std::string_view part, auto& w, auto& b) {
    const std::string name = layer_name(part, layer);
    visit(name + ".weight", w);
    visit(name + ".bias", b);
  };
  both(scheme.tensors.query, p.w_q, p.b_q);
  both(scheme.tensors.key, p.w_k, p.b_k);
  both(scheme.tensors.value, p.w_v, p.b_v);
  both(scheme.tensors.attention_out, p.w_o, p.b_o);
}

/// Calls visit(name, tensor) for each parameter, in the order in which forward uses them. `Model` is Encoder, const or
/// not.
template <class Model, class Visit>
void for_each_parameter(const NamingScheme& scheme, Model& encoder, const Visit& visit) {
  const TensorNames& names = scheme.tensors;
  const auto weight = [&](const std::string& name, auto& tensor) { visit(name + ".weight", tensor); };
  const auto both = [&](const std::string& name, auto& w, auto& b) {
    visit(name + ".weight", w);
    visit(name + ".bias", b);
  };
  auto& embeddings = encoder.embeddings();
  weight(std::string(names.word), embeddings.word.weight);
  weight(std::string(names.position), embeddings.position.weight);
  if (encoder.config().num_token_types > 0) weight(std::string(names.token_type), embeddings.token_type.weight);
  both(std::string(names.embedding_norm), embeddings.norm.weight, embeddings.norm.bias);

  for (index_t i = 0; i < encoder.config().num_layers; ++i) {
    auto& layer = encoder.layers()[static_cast<std::size_t>(i)];
    for_each_attention_parameter(scheme, layer.attention.parameters(), i, visit);
    both(layer_name(names.attention_norm, i), layer.attention_norm.weight, layer.attention_norm.bias);
    both(layer_name(names.up, i), layer.feed_forward.up.weight, layer.feed_forward.up.bias);
    both(layer_name(names.down, i), layer.feed_forward.down.weight, layer.feed_forward.down.bias);
    both(layer_name(names.feed_forward_norm, i), layer.feed_forward_norm.weight, layer.feed_forward_norm.bias);
  }
}

}  // namespace multihead
