#include "io/model_folder.hpp"

#include <algorithm>
#include <fstream>
#include <vector>

#include "core/file_error.hpp"
#include "io/json.hpp"

namespace multihead {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSnapshots = "snapshots";

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code unreadable;
  for (fs::directory_iterator it(folder, unreadable), end; !unreadable && it != end; it.increment(unreadable)) {
    names.push_back(it->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

// The newest snapshot of an entry of the Hugging Face cache: the one that refs/main names, or the only one.
fs::path snapshot_of(const fs::path& entry) {
  std::string commit;
  std::ifstream(entry / "refs/main") >> commit;
  const std::vector<std::string> names = names_in(entry / kSnapshots);
  if (std::ranges::find(names, commit) == names.end()) commit = names.size() == 1 ? names[0] : "";
  return entry / kSnapshots / (commit.empty() ? "COMMIT" : commit);
}

std::string give(const fs::path& path) { return "give " + quote(path.string()); }

struct ForeignWeights {
  std::string_view ending, hint;
};
constexpr std::string_view kConvert =
    "convert them with transformers: AutoModel.from_pretrained(FOLDER).save_pretrained(FOLDER)";
constexpr std::string_view kExport = "they are for another program; fetch the model's safetensors files";
constexpr ForeignWeights kForeignWeights[] = {
    {"adapter_model.safetensors", "an adapter is not a model; merge it into its base model first (merge_and_unload)"},
    {"adapter_model.bin", "an adapter is not a model; merge it into its base model first (merge_and_unload)"},
    {"pytorch_model.bin", kConvert},
    {"pytorch_model.bin.index.json", kConvert},
    {"tf_model.h5", kConvert},
    {"flax_model.msgpack", kConvert},
    {".gguf", kExport},
    {".onnx", kExport},
    {".ckpt.index", kExport},
};

}  // namespace

bool is_there(const fs::path& path) {
  std::error_code unreadable;  // a file that cannot be seen counts as absent
  return fs::exists(path, unreadable);
}

std::string list_of_files(const fs::path& folder) {
  constexpr std::size_t kShown = 8;
  const std::vector<std::string> names = names_in(folder);
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) list += (i > 0 ? ", " : "") + names[i];
  return names.empty() ? "nothing" : quote(list) + (names.size() > kShown ? " and others" : "");
}

ModelFolder::ModelFolder(const fs::path& path, std::string_view function) : path_(path) {
  std::error_code unreadable;
  require_file(is_there(path), path, function, "the model folder must be there");
  const bool is_folder = fs::is_directory(path, unreadable);
  require_file(is_folder, path, function, "a model must be given as its folder, got a file", {},
               is_folder ? "" : give(path.has_parent_path() ? path.parent_path() : fs::path(".")));
  if (holds("config.json")) return;
  require_file(!fs::is_directory(path / kSnapshots, unreadable), path, function,
               "the folder must hold the files of a model, got an entry of the hub's cache", {},
               give(snapshot_of(path)));
  for (const std::string& name : names_in(path)) {
    require_file(!name.starts_with("models--"), path, function,
                 "the folder must hold the files of a model, got a cache of the hub", {},
                 give(snapshot_of(path / name)));
    require_file(!name.ends_with("_Transformer") || !holds(name + "/config.json"), path, function,
                 "the folder must hold the files of a model, got them in a folder inside", {}, give(path / name));
  }
}

bool ModelFolder::holds(std::string_view name) const { return is_there(file(name)); }

const JsonFile* ModelFolder::json(const std::string& name, std::string_view function) const {
  if (const auto found = files_.find(name); found != files_.end()) return found->second.get();
  if (!holds(name)) return nullptr;
  auto read = std::make_unique<JsonFile>(JsonFile{file(name), read_json(file(name), function)});
  return files_.emplace(name, std::move(read)).first->second.get();
}

const JsonFile* ModelFolder::object(const std::string& name, std::string_view function) const {
  const JsonFile* const file = json(name, function);
  require_file(file == nullptr || file->content.is_object(), this->file(name), function,
               "the file must hold a JSON object");
  return file;
}

void require_weights(const fs::path& folder, std::string_view function) {
  constexpr std::string_view kRule = "the folder must hold model.safetensors or model.safetensors.index.json";
  if (is_there(folder / "model.safetensors") || is_there(folder / "model.safetensors.index.json")) return;
  const std::vector<std::string> names = names_in(folder);
  for (const ForeignWeights& foreign : kForeignWeights) {
    for (const std::string& name : names) {
      require_file(!name.ends_with(foreign.ending), folder, function, kRule, {{"found", quote(name)}}, foreign.hint);
    }
  }
  require_file(false, folder, function, kRule, {{"found", list_of_files(folder)}});
}

}  // namespace multihead
