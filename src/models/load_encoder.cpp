#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/file_error.hpp"
#include "models/folder_readers.hpp"
#include "models/parameter_walk.hpp"
#include "multihead/encoder.hpp"
#include "multihead/safetensors.hpp"

namespace multihead {
namespace {

constexpr std::string_view kFunction = "load_encoder";

// Index of the first NaN or infinity, or `size`. Blocks without one take one comparison a value, in vectors.
index_t first_not_finite(const float* x, index_t size) {
  constexpr index_t kBlock = 1024;
  constexpr std::uint32_t kExponent = 0x7f800000;
  for (index_t begin = 0; begin < size; begin += kBlock) {
    const index_t end = std::min(size, begin + kBlock);
    std::uint32_t found = 0;
    for (index_t i = begin; i < end; ++i) found |= (std::bit_cast<std::uint32_t>(x[i]) & kExponent) == kExponent;
    for (index_t i = begin; found != 0 && i < end; ++i) {
      if (!std::isfinite(x[i])) return i;
    }
  }
  return size;
}

// The tensors of a checkpoint by the names of its family.
class Source {
 public:
  Source(const std::filesystem::path& folder, const NamingScheme& scheme)
      : folder_(folder), file_(load_safetensors(folder)) {
    const std::string word = std::string(scheme.tensors.word) + ".weight";
    const auto found = std::ranges::find_if(
        scheme.prefixes, [&](std::string_view prefix) { return file_.find(std::string(prefix) + word) != nullptr; });
    std::string tried;
    for (const std::string_view prefix : scheme.prefixes) {
      tried.append(tried.empty() ? "" : " or ").append(quote(std::string(prefix) + word));
    }
    require_file(found != scheme.prefixes.end(), folder_, kFunction, "the checkpoint must hold the word embedding",
                 {{"missing", tried}});
    prefix_ = *found;
    for (const std::string_view prefix : scheme.prefixes) {
      require_file(prefix == prefix_ || file_.find(std::string(prefix) + word) == nullptr, folder_, kFunction,
                   "the checkpoint must hold one word embedding", {{"names", tried}});
    }
    // Frameworks store the weights of linear layers transposed to each other.
    const auto format = file_.metadata().find("format");
    require<UnsupportedError>(format == file_.metadata().end() || format->second == "pt" || format->second == "np",
                              kFunction, "weights must be stored as PyTorch lays them out",
                              {{"format", format == file_.metadata().end() ? "" : quote(format->second)}});
  }

  const std::filesystem::path& folder() const { return folder_; }

  // The full name under which a parameter is stored, empty where it is not. Old files call the parameters of a
  // LayerNorm gamma and beta.
  std::string stored_name(const std::string& name) const {
    const std::string now_stored = file_.find(prefix_ + name) != nullptr ? prefix_ + name : "";
    for (const auto& [now, before] : {std::pair("LayerNorm.weight", ".gamma"), std::pair("LayerNorm.bias", ".beta")}) {
      if (!name.ends_with(now)) continue;
      const std::string old = prefix_ + name.substr(0, name.rfind('.')) + before;
      if (file_.find(old) == nullptr) continue;
      require_file(now_stored.empty(), folder_, kFunction, "a parameter must be stored under one name",
                   {{"first", quote(now_stored)}, {"second", quote(old)}});
      return old;
    }
    return now_stored;
  }

  bool contains(const std::string& name) const { return !stored_name(name).empty(); }

  const std::vector<index_t>& shape_of(const std::string& name) const {
    const std::string stored = stored_name(name);
    require_file(!stored.empty(), folder_, kFunction, "every parameter of the family must be in the checkpoint",
                 {{"num_missing", 1}, {"missing", quote(prefix_ + name)}});
    return file_.at(stored).shape;
  }

  void expect_shape(const std::string& name, std::span<const index_t> expected) const {
    const std::vector<index_t>& shape = shape_of(name);
    require_file(std::ranges::equal(shape, expected), folder_, kFunction,
                 "a tensor must have the shape that the config asks for",
                 {{"tensor", quote(stored_name(name))},
                  {"shape", shape_text(shape.data(), static_cast<int>(std::min<std::size_t>(shape.size(), 8)))},
                  {"expected", shape_text(expected.data(), static_cast<int>(expected.size()))}});
  }

  template <int R>
  void read(const std::string& name, Tensor<float, R>& tensor) const {
    expect_shape(name, tensor.shape());
    const std::string stored = stored_name(name);
    tensor = file_.read<float, R>(stored);
    const index_t size = tensor.size(), at = first_not_finite(tensor.data(), size);
    require_file(at == size, folder_, kFunction, "weights must be finite as f32",
                 {{"tensor", quote(stored)}, {"element", at}, {"value", double{at < size ? tensor.data()[at] : 0.f}}});
  }

 private:
  std::filesystem::path folder_;
  Safetensors file_;
  std::string prefix_;
};

// Holds the sizes of the config against the tensors that they are the sizes of, before anything is allocated by them.
void check_sizes(const Source& source, const EncoderConfig& config, const NamingScheme& scheme) {
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

// Which heads a layer has: their number out of the tensor's rows, their identity out of the config.
nn::RemainingHeads remaining_heads(const Source& source, const EncoderConfig& config, const NamingScheme& scheme,
                                   index_t layer) {
  const std::string name = layer_name(scheme.tensors.query, layer) + ".weight";
  const std::vector<index_t>& shape = source.shape_of(name);
  const index_t rows = shape.empty() ? 0 : shape[0], num_heads = rows / config.head_dim;
  const auto pruned = config.pruned_heads.find(layer);
  const std::vector<index_t> none, &gone = pruned == config.pruned_heads.end() ? none : pruned->second;
  // A pruned layer may lack its list, but only where head_dim is beyond doubt.
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

void check_nothing_is_missing(const Source& source, const NamingScheme& scheme, const Encoder& encoder) {
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
  const Source source(folder.path(), scheme);

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
