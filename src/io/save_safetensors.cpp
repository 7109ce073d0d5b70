#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/ceil_div.hpp"
#include "core/file_error.hpp"
#include "io/safetensors_header.hpp"
#include "multihead/safetensors.hpp"

namespace multihead {
namespace {

constexpr std::string_view kFunction = "save_safetensors";
constexpr std::size_t kAlignment = 8;

void check(const TensorToSave& saved) {
  const StoredTensor& tensor = saved.tensor;
  index_t bits = stored_dtype_bits(tensor.dtype).value_or(0);
  bool fits = bits > 0 && saved.name != "__metadata__";
  for (const index_t extent : tensor.shape) fits = fits && extent >= 0 && !__builtin_mul_overflow(bits, extent, &bits);
  require(fits && bits % 8 == 0 && bits / 8 == static_cast<index_t>(tensor.data.size()), kFunction,
          "a tensor must have a name, a known dtype, and the bytes of its shape",
          {{"tensor", quote(saved.name)},
           {"dtype", tensor.dtype},
           {"shape", shape_text(tensor.shape.data(), static_cast<int>(tensor.shape.size()))},
           {"bytes", tensor.data.size()}});
}

// The order on disk: wide elements first, so that each tensor starts at a multiple of its element; then by name.
std::vector<const TensorToSave*> order_of(std::span<const TensorToSave> tensors) {
  std::vector<const TensorToSave*> order(tensors.size());
  std::ranges::transform(tensors, order.begin(), [](const TensorToSave& saved) { return &saved; });
  std::ranges::sort(order, {}, [](const TensorToSave* saved) {
    return std::pair(-stored_dtype_bits(saved->tensor.dtype).value_or(0), std::string_view(saved->name));
  });
  return order;
}

}  // namespace

void save_safetensors(OutputFile& file, std::span<const TensorToSave> tensors,
                      const std::map<std::string, std::string>& metadata) {
  for (const TensorToSave& saved : tensors) check(saved);
  const std::vector<const TensorToSave*> order = order_of(tensors);

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  index_t begin = 0;
  for (const TensorToSave* saved : order) {
    const index_t end = begin + static_cast<index_t>(saved->tensor.data.size());
    require(!header.contains(saved->name), kFunction, "a name must stand once", {{"tensor", quote(saved->name)}});
    header[saved->name] = {
        {"dtype", saved->tensor.dtype}, {"shape", saved->tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::type_error&) {
    require(false, kFunction, "names and metadata must be UTF-8");
  }
  text.resize(round_up(text.size(), kAlignment), ' ');

  const std::uint64_t header_bytes = text.size();  // little endian, as asserted where files are loaded
  file.write(std::as_bytes(std::span(&header_bytes, 1)));
  file.write(text);
  for (const TensorToSave* saved : order) file.write(saved->tensor.data);
}

void save_safetensors(const std::filesystem::path& path, std::span<const TensorToSave> tensors,
                      const std::map<std::string, std::string>& metadata) {
  try {
    OutputFile file(path);
    save_safetensors(file, tensors, metadata);
    file.finish();
  } catch (const WriteError& error) {
    require_file(false, path, kFunction, "the file must be writable", {{"error", error.reason()}});
  }
}

TensorToSave detail::contiguous_tensor(std::string name, DType dtype, std::span<const index_t> shape, const void* data,
                                       bool contiguous) {
  require(contiguous, kFunction, "a tensor must be contiguous", {{"tensor", quote(name)}},
          "clone it into a Tensor first");
  const index_t size = checked_size(shape.data(), static_cast<int>(shape.size()), dtype_bytes(dtype));
  return {std::move(name),
          {std::string(stored_dtype_name(dtype)),
           {shape.begin(), shape.end()},
           {static_cast<const std::byte*>(data), static_cast<std::size_t>(size * dtype_bytes(dtype))}}};
}

}  // namespace multihead
