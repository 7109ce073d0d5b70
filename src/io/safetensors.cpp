#include "multihead/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/file_error.hpp"
#include "core/mapped_file.hpp"
#include "io/json.hpp"
#include "io/model_folder.hpp"
#include "io/safetensors_header.hpp"

namespace multihead {

static_assert(std::endian::native == std::endian::little, "stored data are little endian and read as they lie");

namespace fs = std::filesystem;

struct Safetensors::Impl {
  fs::path path;  // of the loaded file, for error texts
  std::vector<std::unique_ptr<MappedFile>> files;
  SafetensorsContent content;
  std::vector<std::string> names;
};

namespace {

constexpr std::string_view kFunction = "load_safetensors";
constexpr std::string_view kOneFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

// Whether a name cannot lead out of its folder.
bool is_plain_file_name(std::string_view name) {
  constexpr std::string_view kForbidden("/\\\0", 3);
  return !name.empty() && name != "." && name != ".." && name.find_first_of(kForbidden) == name.npos;
}

// A stored element, possibly unaligned, converted to T.
template <class T, class Stored>
void widen(const std::byte* data, index_t size, T* out) {
  for (index_t i = 0; i < size; ++i) {
    Stored element;
    std::memcpy(&element, data + i * index_t{sizeof(Stored)}, sizeof(Stored));
    if constexpr (std::is_arithmetic_v<Stored>) {
      out[i] = static_cast<T>(element);
    } else {
      out[i] = to_float(element);
    }
  }
}

template <class T>
bool widen_stored(const StoredTensor& stored, T* out) {
  const auto bytes = static_cast<index_t>(stored.data.size());
  if (stored.dtype == stored_dtype_name(dtype_of<T>)) {
    std::copy_n(stored.data.data(), bytes, reinterpret_cast<std::byte*>(out));
  } else if (stored.dtype == "F32") {
    widen<T, float>(stored.data.data(), bytes / 4, out);
  } else if (stored.dtype == "F64") {
    widen<T, double>(stored.data.data(), bytes / 8, out);
  } else if (stored.dtype == "BF16") {
    widen<T, bf16>(stored.data.data(), bytes / 2, out);
  } else if (stored.dtype == "F16") {
    widen<T, f16>(stored.data.data(), bytes / 2, out);
  } else {
    return false;
  }
  return true;
}

// The weight_map of an index: shard file name -> names of its tensors.
std::map<std::string, std::vector<std::string>> read_index(const fs::path& path) {
  const nlohmann::json index = read_json(path, kFunction);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  require_file(map != index.end() && map->is_object(), path, kFunction, "an index must hold an object weight_map");
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [name, shard] : map->items()) {
    require_file(shard.is_string(), path, kFunction, "weight_map must give a file name for each tensor",
                 {{"tensor", quote(name)}});
    const auto& file = shard.get_ref<const std::string&>();
    require_file(is_plain_file_name(file), path, kFunction,
                 "a shard must be a plain file name in the folder of the index",
                 {{"tensor", quote(name)}, {"shard", quote(file)}});
    shards[file].push_back(name);
  }
  return shards;
}

fs::path file_of(const fs::path& path) {
  std::error_code unreadable;
  if (!fs::is_directory(path, unreadable)) return path;
  require_weights(path, kFunction);
  const fs::path one = path / kOneFile, index = path / kIndexFile;
  return is_there(one) ? one : index;
}

}  // namespace

Safetensors load_safetensors(const fs::path& path) {
  auto impl = std::make_shared<Safetensors::Impl>();
  impl->path = file_of(path);
  const auto load_file = [&](const fs::path& file) {
    impl->files.push_back(std::make_unique<MappedFile>(file, kFunction));
    return parse_safetensors(impl->files.back()->bytes(), file);
  };
  if (impl->path.extension() == ".json") {
    for (const auto& [shard, names] : read_index(impl->path)) {
      const fs::path file = impl->path.parent_path() / shard;
      require_file(is_there(file), impl->path, kFunction, "a shard that the index names must be there",
                   {{"shard", quote(shard)}, {"tensor", quote(names.front())}});
      SafetensorsContent content = load_file(file);
      if (impl->files.size() == 1) impl->content.metadata = std::move(content.metadata);
      for (const std::string& name : names) {
        const auto found = content.tensors.find(name);
        require_file(found != content.tensors.end(), impl->path, kFunction,
                     "a tensor of the index must be in its shard", {{"tensor", quote(name)}, {"shard", quote(shard)}});
        impl->content.tensors.insert(content.tensors.extract(found));
      }
    }
  } else {
    impl->content = load_file(impl->path);
  }
  for (const auto& [name, tensor] : impl->content.tensors) impl->names.push_back(name);
  Safetensors result;
  result.impl_ = std::move(impl);
  return result;
}

const std::vector<std::string>& Safetensors::names() const { return impl_->names; }

const std::map<std::string, std::string>& Safetensors::metadata() const { return impl_->content.metadata; }

const StoredTensor* Safetensors::find(std::string_view name) const {
  const auto found = impl_->content.tensors.find(name);
  return found == impl_->content.tensors.end() ? nullptr : &found->second;
}

const StoredTensor& Safetensors::at(std::string_view name) const {
  const StoredTensor* stored = find(name);
  require_file(stored != nullptr, impl_->path, "Safetensors", "the tensor must be in the file",
               {{"tensor", quote(name)}});
  return *stored;
}

const StoredTensor& Safetensors::checked(std::string_view name, int rank, index_t* shape) const {
  const StoredTensor& stored = at(name);
  require_file(static_cast<int>(stored.shape.size()) == rank, impl_->path, "Safetensors",
               "the tensor must have the rank asked for",
               {{"tensor", quote(name)}, {"rank", stored.shape.size()}, {"asked_rank", rank}});
  std::ranges::copy(stored.shape, shape);
  return stored;
}

bool Safetensors::holds(const StoredTensor& stored, DType dtype, std::size_t alignment) {
  return stored.dtype == stored_dtype_name(dtype) &&
         reinterpret_cast<std::uintptr_t>(stored.data.data()) % alignment == 0;
}

void Safetensors::convert(const StoredTensor& stored, std::string_view name, DType dtype, void* out) const {
  const bool done = dtype == DType::f32   ? widen_stored(stored, static_cast<float*>(out))
                    : dtype == DType::f64 ? widen_stored(stored, static_cast<double*>(out))
                                          : false;
  require<UnsupportedError>(done, "Safetensors", "a tensor of numbers must be stored as F32, F64, BF16 or F16",
                            {{"tensor", quote(name)}, {"dtype", quote(stored.dtype)}, {"asked", dtype}});
}

}  // namespace multihead
