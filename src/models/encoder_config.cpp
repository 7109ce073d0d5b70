#include "multihead/encoder_config.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/file_error.hpp"
#include "models/json_fields.hpp"
#include "models/naming_scheme.hpp"

namespace multihead {
namespace {

constexpr std::string_view kFunction = "load_encoder_config";
constexpr double kDefaultEpsilon = 1e-12;  // of the families handled here, where the file has none

struct NamedActivation {
  std::string_view name;
  nn::Activation activation;
};
constexpr NamedActivation kActivations[] = {
    {"relu", nn::Activation::relu},
    {"gelu", nn::Activation::gelu},
    {"gelu_python", nn::Activation::gelu},
    {"gelu_new", nn::Activation::gelu_tanh},
    {"gelu_pytorch_tanh", nn::Activation::gelu_tanh},
};

std::string model_types_handled() {
  std::string list;
  for (const NamingScheme& scheme : naming_schemes()) {
    for (const std::string_view type : scheme.model_types) list.append(list.empty() ? "" : ", ").append(type);
  }
  return list;
}

nn::Activation read_activation(const JsonFields& fields, std::string_view key) {
  const std::string name = fields.text(key).value_or("gelu");
  const auto found = std::ranges::find(kActivations, name, &NamedActivation::name);
  require<UnsupportedError>(found != std::end(kActivations), kFunction,
                            "the activation must be one of relu, gelu, gelu_new and their other names",
                            {{key, quote(name)}});
  return found->activation;
}

void decline_what_is_not_handled(const JsonFields& fields) {
  const std::string positions = fields.text("position_embedding_type").value_or("absolute");
  require<UnsupportedError>(positions == "absolute", kFunction, "positions must be absolute",
                            {{"position_embedding_type", quote(positions)}},
                            "relative positions inside the scores are not handled");
  for (const std::string_view key : {"is_decoder", "add_cross_attention", "is_encoder_decoder"}) {
    require<UnsupportedError>(!fields.flag(key).value_or(false), kFunction, "the model must be an encoder",
                              {{key, "true"}});
  }
}

// {"layer": [heads ..], ..}
std::map<index_t, std::vector<index_t>> read_pruned_heads(const JsonFields& fields, const EncoderConfig& config) {
  std::map<index_t, std::vector<index_t>> pruned;
  const nlohmann::json* object = fields.find("pruned_heads");
  if (object == nullptr) return pruned;
  require_file(object->is_object(), fields.path(), kFunction, "pruned_heads must be {\"layer\": [heads ..], ..}");
  for (const auto& [key, list] : object->items()) {
    index_t layer = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
    bool fits = error == std::errc{} && end == key.data() + key.size() && layer >= 0 && layer < config.num_layers &&
                list.is_array();
    std::vector<index_t> heads;
    for (const auto& head : list) {
      fits =
          fits && head.is_number_unsigned() && head.get<std::uint64_t>() < static_cast<std::uint64_t>(config.num_heads);
      if (fits) heads.push_back(head.get<index_t>());
    }
    std::ranges::sort(heads);
    fits = fits && std::ranges::adjacent_find(heads) == heads.end();
    require_file(fits, fields.path(), kFunction, "pruned_heads must list, by layer, distinct heads of the design",
                 {{"layer", quote(key)},
                  {"heads", quote(list.dump())},
                  {"num_layers", config.num_layers},
                  {"num_heads", config.num_heads}});
    if (!heads.empty()) pruned[layer] = std::move(heads);
  }
  return pruned;
}

// Where a tokenizer has no limit, files hold a number like 1e30.
index_t max_text_tokens(const std::filesystem::path& folder, index_t max_tokens) {
  const std::filesystem::path path = folder / "tokenizer_config.json";
  std::error_code unreadable;
  if (!std::filesystem::exists(path, unreadable)) return max_tokens;
  const double limit = JsonFields(path, kFunction).number("model_max_length").value_or(static_cast<double>(max_tokens));
  return limit >= 1 && limit < static_cast<double>(max_tokens) ? static_cast<index_t>(limit) : max_tokens;
}

}  // namespace

EncoderConfig load_encoder_config(const std::filesystem::path& folder) {
  const JsonFields fields(folder / "config.json", kFunction);
  EncoderConfig config;
  const std::optional<std::string> type = fields.text("model_type");
  require_file(type.has_value(), fields.path(), kFunction, "a field must be there", {{"field", quote("model_type")}});
  config.model_type = *type;
  const NamingScheme* scheme = find_naming_scheme(*type);
  require<UnsupportedError>(scheme != nullptr, kFunction, "model_type must be one of " + model_types_handled(),
                            {{"model_type", quote(*type)}});
  decline_what_is_not_handled(fields);

  const ConfigNames& names = scheme->config;
  config.d_model = fields.required_integer(names.d_model, 1);
  config.num_layers = fields.required_integer(names.num_layers, 0);
  config.num_heads = fields.required_integer(names.num_heads, 1);
  const std::optional<index_t> head_dim = fields.integer("head_dim", 1);
  require_file(head_dim || config.d_model % config.num_heads == 0, fields.path(), kFunction,
               "the number of heads must divide the width, or head_dim be given",
               {{names.d_model, config.d_model}, {names.num_heads, config.num_heads}});
  config.head_dim = head_dim.value_or(config.d_model / config.num_heads);
  config.hidden_features = fields.required_integer(names.hidden_features, 1);
  config.vocab_size = fields.required_integer("vocab_size", 1);
  config.max_positions = fields.required_integer("max_position_embeddings", 1);
  if (!names.num_token_types.empty()) config.num_token_types = fields.required_integer(names.num_token_types, 0);
  config.activation = read_activation(fields, names.activation);
  config.norm_epsilon = kDefaultEpsilon;
  if (!names.norm_epsilon.empty()) config.norm_epsilon = fields.number(names.norm_epsilon).value_or(kDefaultEpsilon);
  require_file(config.norm_epsilon >= 0 && std::isfinite(config.norm_epsilon), fields.path(), kFunction,
               "the epsilon of the norms must not be negative", {{names.norm_epsilon, config.norm_epsilon}});

  config.positions_after_pad = scheme->positions_after_pad;
  config.pad_token_id = fields.integer("pad_token_id").value_or(config.positions_after_pad ? 1 : 0);
  require_file(config.max_tokens() >= 1, fields.path(), kFunction,
               "there must be positions after that of the pad token",
               {{"max_position_embeddings", config.max_positions}, {"pad_token_id", config.pad_token_id}});
  config.max_text_tokens = max_text_tokens(folder, config.max_tokens());
  config.pruned_heads = read_pruned_heads(fields, config);
  return config;
}

}  // namespace multihead
