#include <array>
#include <numeric>

#include "core/file_error.hpp"
#include "models/encoder_source.hpp"
#include "models/folder_readers.hpp"
#include "models/parameter_walk.hpp"
#include "multihead/encoder.hpp"

namespace multihead {
namespace {

constexpr std::string_view kFunction = "load_encoder";

// Checks the sizes of the config against the tensors, before memory is allocated according to them.
void check_sizes(const EncoderSource& source, const EncoderConfig& config, const NamingScheme& scheme) {
  const TensorNames& names = scheme.tensors;
  const auto rows = [&](const std::string& name, index_t count) {
    source.expect_shape(name + ".weight", std::array{count, config.d_model});
  };
  rows(std::string(names.word), config.vocab_size);
  rows(std::string(names.position), config.max_positions);
  const std::string types(names.token_type);
  if (config.num_token_types > 0 || (!types.empty() && source.contains(types + ".weight"))) {
    rows(types, config.num_token_types);
  }

  index_t layers = 0;
  while (source.contains(layer_name(names.query, layers) + ".weight")) ++layers;
  require_file(layers == config.num_layers, source.folder(), kFunction,
               "the checkpoint must hold the layers of its config",
               {{scheme.config.num_layers, config.num_layers},
                {"layers_found", layers},
                {"next", quote(layer_name(names.query, layers) + ".weight")}});
  for (index_t layer = 0; layer < layers; ++layer) rows(layer_name(names.up, layer), config.hidden_features);
}

// Which heads a layer has: their count follows from the rows of the tensor, their original numbers from the config.
nn::RemainingHeads remaining_heads(const EncoderSource& source, const EncoderConfig& config, const NamingScheme& scheme,
                                   index_t layer) {
  const std::string name = layer_name(scheme.tensors.query, layer) + ".weight";
  const std::vector<index_t>& shape = source.shape_of(name);
  const index_t rows = shape.empty() ? 0 : shape[0], num_heads = rows / config.head_dim;
  const auto pruned = config.pruned_heads.find(layer);
  const std::vector<index_t> none, &gone = pruned == config.pruned_heads.end() ? none : pruned->second;
  // A pruned layer may lack its list of heads, but only if head_dim is known for sure.
  const index_t num_left = config.num_heads - static_cast<index_t>(gone.size());
  const bool may_lack_list = gone.empty() && config.head_dim * config.num_heads == config.d_model;
  const bool fits = num_heads == num_left || (may_lack_list && num_heads < num_left);
  require_file(fits && rows % config.head_dim == 0, source.folder(), kFunction,
               "the rows of a query must be head_dim for each head that the config leaves to the layer",
               {{"tensor", quote(source.stored_name(name))},
                {"rows", rows},
                {"head_dim", config.head_dim},
                {scheme.config.num_heads, config.num_heads},
                {"num_pruned_heads", gone.size()}});
  source.expect_shape(name, std::array{rows, config.d_model});

  nn::RemainingHeads heads;
  for (index_t h = 0; static_cast<index_t>(heads.original_heads.size()) < num_heads; ++h) {
    if (!std::ranges::binary_search(gone, h)) heads.original_heads.push_back(h);
  }
  heads.original_kv_heads = heads.original_heads;
  heads.kv_head_of.resize(heads.original_heads.size());
  std::iota(heads.kv_head_of.begin(), heads.kv_head_of.end(), index_t{0});
  return heads;
}

void check_nothing_is_missing(const EncoderSource& source, const NamingScheme& scheme, const Encoder& encoder) {
  constexpr index_t kNamed = 5;
  index_t missing = 0;
  std::string names;
  for_each_parameter(scheme, encoder, [&](const std::string& name, const auto&) {
    if (source.contains(name) || ++missing > kNamed) return;
    names.append(missing > 1 ? ", " : "").append(quote(name));
  });
  if (missing > kNamed) names += ", ..";
  require_file(missing == 0, source.folder(), kFunction, "every parameter of the family must be in the checkpoint",
               {{"num_missing", missing}, {"missing", names}});
}

}  // namespace

Encoder load_encoder(const std::filesystem::path& path) {
  const ModelFolder folder(path, kFunction);
  return read_encoder(folder, read_encoder_config(folder));
}

Encoder read_encoder(const ModelFolder& folder, const EncoderConfig& config) {
  const NamingScheme& scheme = *find_naming_scheme(config.model_type);
  const EncoderSource source(folder.path(), scheme, kFunction);

  check_sizes(source, config, scheme);
  std::vector<nn::RemainingHeads> heads;
  for (index_t layer = 0; layer < config.num_layers; ++layer) {
    heads.push_back(remaining_heads(source, config, scheme, layer));
  }
  Encoder encoder(config, heads);
  check_nothing_is_missing(source, scheme, encoder);
  for_each_parameter(scheme, encoder, [&](const std::string& name, auto& tensor) { source.read(name, tensor); });
  return encoder;
}

}  // namespace multihead
