#include "multihead/encoder_config.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/file_error.hpp"
#include "io/settings.hpp"
#include "models/folder_readers.hpp"
#include "models/json_fields.hpp"
#include "models/naming_scheme.hpp"

namespace multihead {
namespace {

constexpr std::string_view kFunction = "load_encoder_config";

// Other settings that could change the hidden states of an encoder of these families. The remaining keys of config.json
// cannot: dropout, labels and task heads, caches, names, precision of storage.
constexpr Setting kHarmless[] = {
    {"quantization_config", "{}"},
    {"compression_config", "{}"},
    {"rope_scaling", "{}"},
    {"rope_parameters", "{}"},
    {"rope_theta", ""},
    {"sliding_window", ""},
    {"auto_map", "{}"},  // custom code of the model
    {"cross_attention_hidden_size", ""},
};

constexpr double kDefaultEpsilon = 1e-12;  // of the supported families, if the file does not state it

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

// Model types that generate text, for a hint in the error.
constexpr std::string_view kDecoderTypes[] = {
    "gpt2",  "gptj",    "gpt_neo", "gpt_neox", "llama",  "mistral",    "mixtral",  "qwen2",      "qwen3",
    "gemma", "gemma2",  "phi",     "phi3",     "falcon", "bloom",      "opt",      "mpt",        "olmo",
    "xglm",  "codegen", "gpt_oss", "llama4",   "cohere", "starcoder2", "stablelm", "gpt_bigcode"};

bool is_decoder(const JsonFields& fields, std::string_view type) {
  if (std::ranges::find(kDecoderTypes, type) != std::end(kDecoderTypes)) return true;
  const nlohmann::json* const classes = fields.find("architectures");
  if (classes == nullptr || !classes->is_array()) return false;
  return std::ranges::any_of(*classes, [](const nlohmann::json& each) {
    return each.is_string() && (each.get_ref<const std::string&>().ends_with("ForCausalLM") ||
                                each.get_ref<const std::string&>().ends_with("LMHeadModel"));
  });
}

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
  require_harmless(fields.object(), kHarmless, fields.path(), kFunction);
}

// The value of a size, under the key of the family or under the general key. If both are present, they must agree.
index_t size_of(const JsonFields& fields, std::string_view key, std::string_view general, index_t least) {
  if (key == general || fields.find(general) == nullptr) return fields.required_integer(key, least);
  const index_t size = fields.integer(general, least).value_or(0);
  const index_t own = fields.integer(key, least).value_or(size);
  require_file(own == size, fields.path(), kFunction, "two names of one size must say the same",
               {{key, own}, {general, size}});
  return size;
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

// For a tokenizer without limit, files contain a number like 1e30. max_len is the older name.
index_t max_text_tokens(const ModelFolder& folder, index_t max_tokens) {
  const JsonFile* const file = folder.json("tokenizer_config.json", kFunction);
  if (file == nullptr) return max_tokens;
  const JsonFields fields(*file, kFunction);
  const std::string_view key = fields.find("model_max_length") != nullptr ? "model_max_length" : "max_len";
  const double limit = fields.number(key).value_or(static_cast<double>(max_tokens));
  const bool fits = limit >= static_cast<double>(max_tokens) || (limit >= 1 && limit == std::floor(limit));
  require_file(fits, fields.path(), kFunction, "the longest text must be a whole number of tokens, at least 1",
               {{key, limit}});
  return limit < static_cast<double>(max_tokens) ? static_cast<index_t>(limit) : max_tokens;
}

}  // namespace

EncoderConfig load_encoder_config(const std::filesystem::path& folder) {
  return read_encoder_config(ModelFolder(folder, kFunction));
}

EncoderConfig read_encoder_config(const ModelFolder& folder) {
  const JsonFile* const file = folder.json("config.json", kFunction);
  require_file(file != nullptr, folder.path(), kFunction, "the folder must hold config.json",
               {{"found", list_of_files(folder.path())}});
  require<UnsupportedError>(!folder.holds("adapter_config.json"), kFunction, "the model must be complete",
                            {{"found", "adapter_config.json"}},
                            "merge the adapter into its base model first (merge_and_unload)");
  const JsonFields fields(*file, kFunction);
  EncoderConfig config;
  const std::optional<std::string> type = fields.text("model_type");
  require_file(type.has_value(), fields.path(), kFunction, "a field must be there", {{"field", quote("model_type")}});
  config.model_type = *type;
  const NamingScheme* scheme = find_naming_scheme(*type);
  require<UnsupportedError>(scheme != nullptr, kFunction, "model_type must be one of " + model_types_handled(),
                            {{"model_type", quote(*type)}},
                            is_decoder(fields, *type) ? "decoder models are not read yet" : "");
  decline_what_is_not_handled(fields);

  const ConfigNames &names = scheme->config, &general = find_naming_scheme("bert")->config;
  config.d_model = size_of(fields, names.d_model, general.d_model, 1);
  config.num_layers = size_of(fields, names.num_layers, general.num_layers, 0);
  config.num_heads = size_of(fields, names.num_heads, general.num_heads, 1);
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
