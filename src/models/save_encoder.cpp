#include "multihead/save_encoder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>

#include "core/element.hpp"
#include "core/file_error.hpp"
#include "models/encoder_source.hpp"
#include "models/folder_readers.hpp"
#include "models/parameter_walk.hpp"

namespace multihead {
namespace {

namespace fs = std::filesystem;
using Attention = nn::MultiHeadAttention<float>;

constexpr std::string_view kFunction = "save_encoder";

void check_same_design(const EncoderConfig& a, const EncoderConfig& b, const fs::path& source) {
  const auto equal = [&](std::string_view size, index_t encoder, index_t folder) {
    require_file(encoder == folder, source, kFunction, "the encoder must be of the design of the folder",
                 {{"size", size}, {"encoder", encoder}, {"folder", folder}});
  };
  equal("d_model", a.d_model, b.d_model);
  equal("num_layers", a.num_layers, b.num_layers);
  equal("num_heads", a.num_heads, b.num_heads);
  equal("head_dim", a.head_dim, b.head_dim);
  equal("hidden_features", a.hidden_features, b.hidden_features);
  equal("vocab_size", a.vocab_size, b.vocab_size);
  equal("max_positions", a.max_positions, b.max_positions);
  equal("num_token_types", a.num_token_types, b.num_token_types);
}

std::vector<index_t> removed_heads(const Attention& layer) {
  std::vector<index_t> removed;
  for (index_t h = 0; h < layer.config().num_heads; ++h) {
    if (!std::ranges::binary_search(layer.heads().original_heads, h)) removed.push_back(h);
  }
  return removed;
}

void copy(TensorView<const float, 2> from, TensorView<float, 2> to) {
  for (index_t row = 0; row < from.shape(0); ++row) {
    for (index_t column = 0; column < from.shape(1); ++column) to(row, column) = from(row, column);
  }
}
void copy(TensorView<const float, 1> from, TensorView<float, 1> to) {
  for (index_t n = 0; n < from.shape(0); ++n) to(n) = from(n);
}

// The layer with all heads of its design; those that are gone are zeros.
Attention with_removed_heads(const Attention& layer) {
  Attention full(layer.config());
  for (index_t h = 0; h < layer.num_heads(); ++h) {
    const nn::HeadView<const float> from = layer.head(h);
    const nn::HeadView<float> to = full.head(from.original_head);
    copy(from.w_q, to.w_q), copy(from.w_k, to.w_k), copy(from.w_v, to.w_v), copy(from.w_o, to.w_o);
    copy(from.b_q, to.b_q), copy(from.b_k, to.b_k), copy(from.b_v, to.b_v);
  }
  full.parameters().b_o = layer.parameters().b_o.clone();
  return full;
}

// The tensors of the new file: views of the encoder's or of the source's, and what had to be made for them.
class TensorList {
 public:
  explicit TensorList(const EncoderSource& source) : source_(source) {
    for (const std::string& name : source.file().names()) tensors_[name] = source.file().at(name);
  }

  // The parameter in the place of what the source has under its name. `x` must outlive the list.
  template <int R>
  void replace(const std::string& name, const Tensor<float, R>& x) {
    static_cast<void>(source_.shape_of(name));  // it must be there
    const std::string stored_name = source_.stored_name(name);
    StoredTensor& stored = tensors_[stored_name];
    float largest = 0;
    for (index_t n = 0; n < x.size(); ++n) {
      require(std::isfinite(x.data()[n]), kFunction, "weights must be finite",
              {{"tensor", quote(stored_name)}, {"element", n}, {"value", double{x.data()[n]}}});
      largest = std::max(largest, std::abs(x.data()[n]));
    }
    if (stored.dtype == "F64") return narrow<double>(stored_name, x.data(), x.shape());
    if (stored.dtype == "BF16") return narrow<bf16>(stored_name, x.data(), x.shape());
    if (stored.dtype == "F16" && largest <= kLargestHalf) return narrow<f16>(stored_name, x.data(), x.shape());
    stored = tensor_to_save(stored_name, x.view()).tensor;
  }

  // A layer that is kept until the file is written.
  const Attention& keep(Attention&& layer) { return layers_.emplace_back(std::move(layer)); }

  void write(OutputFolder& folder) const {
    std::vector<TensorToSave> list;
    for (const auto& [name, tensor] : tensors_) list.push_back({name, tensor});
    std::map<std::string, std::string> metadata = source_.file().metadata();
    metadata.try_emplace("format", "pt");  // transformers opens no file without it
    folder.write("model.safetensors", [&](OutputFile& file) { save_safetensors(file, list, metadata); });
  }

 private:
  static constexpr float kLargestHalf = 65504.0f;

  template <class T, std::size_t R>
  void narrow(const std::string& name, const float* x, const std::array<index_t, R>& shape) {
    std::size_t size = 1;
    for (const index_t extent : shape) size *= static_cast<std::size_t>(extent);
    std::vector<std::byte>& bytes = made_.emplace_back(size * sizeof(T));
    T* const to = reinterpret_cast<T*>(bytes.data());
    for (std::size_t n = 0; n < size; ++n) assign(to[n], x[n]);
    StoredTensor& stored = tensors_[name];
    stored.shape.assign(shape.begin(), shape.end());
    stored.data = bytes;
  }

  const EncoderSource& source_;
  std::map<std::string, StoredTensor> tensors_;
  std::deque<std::vector<std::byte>> made_;
  std::deque<Attention> layers_;
};

void write_config(const ModelFolder& source, const Encoder& encoder, OutputFolder& folder, HeadStorage storage) {
  nlohmann::json config = source.object("config.json", kFunction)->content;
  nlohmann::json gone = nlohmann::json::object();
  for (std::size_t layer = 0; layer < encoder.layers().size(); ++layer) {
    const std::vector<index_t> removed = removed_heads(encoder.layers()[layer].attention);
    if (!removed.empty()) gone[std::to_string(layer)] = removed;
  }
  const bool is_sliced = storage == HeadStorage::sliced;
  config.erase("pruned_heads");
  config.erase("zeroed_heads");
  if (!gone.empty()) config[is_sliced ? "pruned_heads" : "zeroed_heads"] = gone;
  folder.write("config.json", config.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

bool is_copied(const fs::path& file) {
  const std::string name = file.filename().string();
  return name != "config.json" && !name.ends_with(".index.json") &&
         (name.ends_with(".json") || name.ends_with(".txt") || name.ends_with(".model") || name.starts_with("LICENSE"));
}

// Files of the tokenizer and of sentence-transformers, and the settings of each module that has a folder.
void copy_other_files(const ModelFolder& source, OutputFolder& folder) {
  std::vector<fs::path> names;
  std::error_code error;
  for (fs::directory_iterator it(source.path(), error), end; !error && it != end; it.increment(error)) {
    if (it->is_regular_file(error) && is_copied(it->path())) names.push_back(it->path().filename());
  }
  const JsonFile* const modules = source.json("modules.json", kFunction);
  for (const nlohmann::json& module : modules ? modules->content : nlohmann::json::array()) {
    const bool has_path = module.is_object() && module.contains("path") && module["path"].is_string();
    const std::string path = has_path ? module["path"].get<std::string>() : "";
    if (path.empty() || path.starts_with(".") || path.find_first_of("/\\") != path.npos) continue;
    if (source.holds(path + "/config.json")) names.push_back(fs::path(path) / "config.json");
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const fs::path& name : names) folder.copy(name, source.path() / name);
}

}  // namespace

void save_encoder(const Encoder& encoder, const fs::path& path, OutputFolder& folder, HeadStorage storage) {
  const ModelFolder source(path, kFunction);
  const EncoderConfig config = read_encoder_config(source);
  check_same_design(encoder.config(), config, path);
  const NamingScheme& scheme = *find_naming_scheme(config.model_type);
  const EncoderSource tensors(path, scheme, kFunction);

  TensorList list(tensors);
  for_each_parameter(scheme, encoder, [&](const std::string& name, const auto& x) { list.replace(name, x); });
  for (index_t i = 0; storage == HeadStorage::zeroed && i < config.num_layers; ++i) {
    const Attention& layer = list.keep(with_removed_heads(encoder.layers()[static_cast<std::size_t>(i)].attention));
    for_each_attention_parameter(scheme, layer.parameters(), i,
                                 [&](const std::string& name, const auto& x) { list.replace(name, x); });
  }
  write_config(source, encoder, folder, storage);
  list.write(folder);
  copy_other_files(source, folder);
}

void save_encoder(const Encoder& encoder, const fs::path& source, const fs::path& path, HeadStorage storage) {
  OutputFolder folder(path);
  save_encoder(encoder, source, folder, storage);
  folder.finish();
}

}  // namespace multihead
