#include "multihead/sentence_embedding.hpp"

#include <algorithm>
#include <cmath>

#include "core/file_error.hpp"
#include "io/json.hpp"
#include "io/settings.hpp"
#include "models/folder_readers.hpp"
#include "models/json_fields.hpp"

namespace multihead {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFunction = "load_sentence_pooling";

struct NamedPooling {
  std::string_view key;   // in config.json of the pooling module; true if this mode is used
  std::string_view mode;  // the same as value of the newer key pooling_mode
  std::optional<Pooling> pooling;
};
const NamedPooling kPoolings[] = {
    {"pooling_mode_mean_tokens", "mean", Pooling::mean},
    {"pooling_mode_cls_token", "cls", Pooling::first},
    {"pooling_mode_max_tokens", "max", Pooling::max},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", {}},
    {"pooling_mode_weightedmean_tokens", "weightedmean", {}},
    {"pooling_mode_lasttoken", "lasttoken", {}},
};

Pooling handled(const NamedPooling& named) {
  require<UnsupportedError>(named.pooling.has_value(), kFunction, "pooling must be by mean, cls or max",
                            {{"pooling", std::string(named.mode)}});
  return *named.pooling;
}

// A string, or a list of one.
std::optional<std::string> pooling_mode(const JsonFields& fields) {
  const nlohmann::json* const modes = fields.find("pooling_mode");
  if (modes == nullptr || !modes->is_array()) return fields.text("pooling_mode");
  require<UnsupportedError>(modes->size() == 1 && modes->front().is_string(), kFunction,
                            "pooling must be by one way alone", {{"pooling_mode", quote(modes->dump())}});
  return modes->front().get<std::string>();
}

Pooling read_pooling(const JsonFile& file) {
  const JsonFields fields(file, kFunction);
  std::vector<std::string_view> known = {"pooling_mode", "word_embedding_dimension", "embedding_dimension",
                                         "include_prompt"};  // of prompts, which are not supported if they are set
  for (const NamedPooling& named : kPoolings) known.push_back(named.key);
  require_known(file.content, known, {}, file.path, kFunction);
  if (const std::optional<std::string> mode = pooling_mode(fields)) {
    const auto found = std::ranges::find(kPoolings, *mode, &NamedPooling::mode);
    require<UnsupportedError>(found != std::end(kPoolings), kFunction, "pooling must be by mean, cls or max",
                              {{"pooling", quote(*mode)}});
    return handled(*found);
  }
  const NamedPooling* on = nullptr;
  for (const NamedPooling& named : kPoolings) {
    if (!fields.flag(named.key).value_or(false)) continue;
    require<UnsupportedError>(on == nullptr, kFunction, "pooling must be by one way alone",
                              {{"first", on ? std::string(on->mode) : ""}, {"second", std::string(named.mode)}});
    on = &named;
  }
  require_file(on != nullptr, file.path, kFunction, "one way of pooling must be on");
  return handled(*on);
}

// Settings files of the module Transformer, which is the encoder itself. They are tried in this order; the first one
// that exists is used.
constexpr std::string_view kTransformerFiles[] = {
    "sentence_bert_config.json",      "sentence_roberta_config.json", "sentence_distilbert_config.json",
    "sentence_camembert_config.json", "sentence_albert_config.json",  "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
};
constexpr std::string_view kTransformerKnown[] = {"max_seq_length", "unpad_inputs"};
constexpr Setting kTransformerHarmless[] = {
    {"do_lower_case", "false"},
    {"transformer_task", "\"feature-extraction\""},
    {"modality_config", R"({"text":{"method":"forward","method_output_name":"last_hidden_state"}})"},
    {"module_output_name", "\"token_embeddings\""},
    {"processing_kwargs", "{}"},
    {"model_args", "{}"},
    {"model_kwargs", "{}"},
    {"tokenizer_args", "{}"},
    {"tokenizer_name_or_path", ""},
    {"processor_kwargs", "{}"},
    {"config_args", "{}"},
    {"config_kwargs", "{}"},
    {"query_length", ""},
    {"document_length", ""},
    {"query_expansion", ""},
};
constexpr Setting kNormalizeHarmless[] = {
    {"module_input_name", "\"sentence_embedding\""},
    {"module_output_name", "\"sentence_embedding\""},
};
constexpr Setting kModelHarmless[] = {
    {"model_type", "\"SentenceTransformer\""},
    {"truncate_dim", ""},
};

index_t read_max_tokens(const ModelFolder& folder) {
  for (const std::string_view name : kTransformerFiles) {
    const JsonFile* const file = folder.json(std::string(name), kFunction);
    if (file == nullptr || file->content.empty()) continue;
    const JsonFields fields(*file, kFunction);
    require_known(file->content, kTransformerKnown, kTransformerHarmless, file->path, kFunction);
    return fields.integer("max_seq_length", 1).value_or(0);
  }
  return 0;
}

// A prompt that is added before every text by default.
void decline_default_prompt(const ModelFolder& folder) {
  const JsonFile* const file = folder.json("config_sentence_transformers.json", kFunction);
  if (file == nullptr) return;
  const JsonFields fields(*file, kFunction);
  require_harmless(file->content, kModelHarmless, file->path, kFunction);
  const std::optional<std::string> name = fields.text("default_prompt_name");
  const nlohmann::json* const prompts = fields.find("prompts");
  if (!name || (prompts != nullptr && prompts->is_object() && prompts->value(*name, nlohmann::json()) == "")) return;
  require<UnsupportedError>(false, kFunction, "no prompt must be put before texts by default",
                            {{"default_prompt_name", quote(*name)}});
}

// A module of modules.json: its class without the package, and the name of its folder inside the model folder.
struct Module {
  std::string name, path;

  std::string config_file() const { return path.empty() ? "config.json" : path + "/config.json"; }
};
Module read_module(const nlohmann::json& module, const fs::path& index) {
  const bool well_formed = module.is_object() && module.contains("type") && module["type"].is_string() &&
                           (!module.contains("path") || module["path"].is_string());
  require_file(well_formed, index, kFunction, "a module must be an object with type and path",
               {{"module", quote(module.dump())}});
  constexpr std::string_view kKnown[] = {"idx", "name", "path", "type"};
  constexpr Setting kHarmless[] = {{"kwargs", "[] {}"}};
  require_known(module, kKnown, kHarmless, index, kFunction);
  const std::string type = module["type"], path = module.value("path", "");
  const std::string name = type.substr(type.rfind('.') + 1);
  const bool handled =
      type.starts_with("sentence_transformers.") && (name == "Transformer" || name == "Pooling" || name == "Normalize");
  require<UnsupportedError>(handled, kFunction, "a module must be Transformer, Pooling or Normalize",
                            {{"type", quote(type)}});
  require_file(path.find_first_of("/\\") == path.npos && path != "..", index, kFunction,
               "a module's path must be a plain name in the folder", {{"path", quote(path)}});
  return {name, path};
}

}  // namespace

SentencePooling load_sentence_pooling(const fs::path& folder) {
  return read_sentence_pooling(ModelFolder(folder, kFunction));
}

SentencePooling read_sentence_pooling(const ModelFolder& folder) {
  SentencePooling result{.max_tokens = read_max_tokens(folder)};
  decline_default_prompt(folder);
  const JsonFile* const index = folder.json("modules.json", kFunction);
  if (index == nullptr) return result;
  require_file(index->content.is_array(), index->path, kFunction, "modules.json must hold an array");
  std::string order;
  for (const nlohmann::json& each : index->content) {
    const Module module = read_module(each, index->path);
    order.append(order.empty() ? "" : ", ").append(module.name);
    if (module.name == "Transformer") {
      require_file(module.path.empty(), index->path, kFunction, "the encoder must lie in the folder itself",
                   {{"path", quote(module.path)}}, "give that folder");
    } else if (module.name == "Pooling") {
      const JsonFile* const file = folder.object(module.config_file(), kFunction);
      require_file(file != nullptr, index->path, kFunction, "a module must have its config.json",
                   {{"path", quote(module.path)}});
      result.pooling = read_pooling(*file);
    } else {
      result.normalize = true;
      const JsonFile* const file = module.path.empty() ? nullptr : folder.object(module.config_file(), kFunction);
      if (file != nullptr) require_known(file->content, {}, kNormalizeHarmless, file->path, kFunction);
    }
  }
  require<UnsupportedError>(order == "Transformer, Pooling" || order == "Transformer, Pooling, Normalize", kFunction,
                            "the modules must be Transformer, Pooling and maybe Normalize", {{"modules", order}});
  return result;
}

Tensor<float, 2> pool(TensorView<const float, 3> hidden, TensorView<const index_t, 1> lengths,
                      const SentencePooling& pooling) {
  const index_t batch = hidden.shape(0), seqlen = hidden.shape(1), features = hidden.shape(2);
  require(!lengths || lengths.shape(0) == batch, "pool", "lengths must be [batch]",
          {{"lengths", lengths.shape(0)}, {"batch", batch}});
  for (index_t b = 0; lengths && b < batch; ++b) {
    require(lengths(b) >= 0 && lengths(b) <= seqlen, "pool", "a length must be in [0, seqlen]",
            {{"b", b}, {"length", lengths(b)}, {"seqlen", seqlen}});
  }
  Tensor<float, 2> result({batch, features});
  for (index_t b = 0; b < batch; ++b) {
    const index_t length = lengths ? lengths(b) : seqlen;
    if (length == 0) continue;
    double squares = 0;
    for (index_t j = 0; j < features; ++j) {
      double value = hidden(b, 0, j);
      for (index_t i = 1; i < length && pooling.pooling != Pooling::first; ++i) {
        const double next = hidden(b, i, j);
        value = pooling.pooling == Pooling::max ? std::max(value, next) : value + next;
      }
      if (pooling.pooling == Pooling::mean) value /= static_cast<double>(length);
      squares += value * value;
      result(b, j) = static_cast<float>(value);
    }
    if (!pooling.normalize || squares == 0) continue;
    for (index_t j = 0; j < features; ++j) result(b, j) = static_cast<float>(result(b, j) / std::sqrt(squares));
  }
  return result;
}

}  // namespace multihead
