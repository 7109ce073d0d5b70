#include "multihead/sentence_embedding.hpp"

#include <algorithm>
#include <cmath>

#include "core/file_error.hpp"
#include "io/json.hpp"
#include "models/json_fields.hpp"

namespace multihead {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFunction = "load_sentence_pooling";

struct NamedPooling {
  std::string_view key;   // of the pooling module's config.json, where it is true for the mode that is on
  std::string_view mode;  // value of its newer key pooling_mode
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

Pooling read_pooling(const fs::path& path) {
  const JsonFields fields(path, kFunction);
  if (const std::optional<std::string> mode = fields.text("pooling_mode")) {
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
  require_file(on != nullptr, path, kFunction, "one way of pooling must be on");
  return handled(*on);
}

// The folder of a module: a plain name inside the model's folder.
fs::path module_folder(const fs::path& folder, const nlohmann::json& module, const fs::path& index) {
  const std::string name = module.value("path", "");
  require_file(name.find_first_of("/\\") == name.npos && name != "..", index, kFunction,
               "a module's path must be a plain name in the folder", {{"path", quote(name)}});
  return folder / name;
}

}  // namespace

SentencePooling load_sentence_pooling(const fs::path& folder) {
  SentencePooling result;
  std::error_code unreadable;
  const fs::path limits = folder / "sentence_bert_config.json", index = folder / "modules.json";
  if (fs::exists(limits, unreadable)) {
    result.max_tokens = JsonFields(limits, kFunction).integer("max_seq_length", 1).value_or(0);
  }
  if (!fs::exists(index, unreadable)) return result;

  const nlohmann::json modules = read_json(index, kFunction);
  require_file(modules.is_array(), index, kFunction, "modules.json must hold an array");
  for (const nlohmann::json& module : modules) {
    const bool well_formed = module.is_object() && module.contains("type") && module["type"].is_string() &&
                             (!module.contains("path") || module["path"].is_string());
    require_file(well_formed, index, kFunction, "a module must be an object with type and path",
                 {{"module", quote(module.dump())}});
    const std::string type = module["type"];
    const std::string name = type.substr(type.rfind('.') + 1);
    if (name == "Pooling") {
      result.pooling = read_pooling(module_folder(folder, module, index) / "config.json");
    } else if (name == "Normalize") {
      result.normalize = true;
    } else {
      require<UnsupportedError>(name == "Transformer", kFunction, "a module must be Transformer, Pooling or Normalize",
                                {{"type", quote(type)}});
    }
  }
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
