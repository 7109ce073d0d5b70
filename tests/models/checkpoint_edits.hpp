// Copies of the tiny checkpoints in tests/golden/data with something changed.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "models/files.hpp"
#include "multihead/safetensors.hpp"

namespace multihead {

inline std::filesystem::path golden_folder(const std::string& name) {
  return std::filesystem::path(MULTIHEAD_SOURCE_DIR) / "tests/golden/data" / name;
}

struct CheckpointEdits {
  std::function<void(nlohmann::json&)> config = {};
  std::function<std::string(const std::string&)> rename = {};  ///< "" leaves the tensor out
  std::function<void(std::vector<TensorToSave>&)> tensors = {};
  int num_shards = 1;
};

/// Writes the checkpoint `name` into `folder`, edited.
inline void copy_checkpoint(const std::string& name, const TemporaryFolder& folder, const CheckpointEdits& edits) {
  nlohmann::json config = nlohmann::json::parse(read_bytes(golden_folder(name) / "config.json"));
  if (edits.config) edits.config(config);
  folder.write("config.json", config.dump());

  const Safetensors file = load_safetensors(golden_folder(name));
  std::vector<TensorToSave> tensors;
  for (const std::string& tensor : file.names()) {
    const std::string renamed = edits.rename ? edits.rename(tensor) : tensor;
    if (!renamed.empty()) tensors.push_back({renamed, file.at(tensor)});
  }
  if (edits.tensors) edits.tensors(tensors);
  if (edits.num_shards == 1) return save_safetensors(folder / "model.safetensors", tensors);

  nlohmann::json index;
  for (int shard = 0; shard < edits.num_shards; ++shard) {
    const std::string file_name = "part-" + std::to_string(shard) + ".safetensors";
    std::vector<TensorToSave> part;
    for (std::size_t t = static_cast<std::size_t>(shard); t < tensors.size(); t += edits.num_shards) {
      part.push_back(tensors[t]);
      index["weight_map"][tensors[t].name] = file_name;
    }
    save_safetensors(folder / file_name, part);
  }
  folder.write("model.safetensors.index.json", index.dump());
}

}  // namespace multihead
