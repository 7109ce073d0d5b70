// Named tensors in safetensors files. Files are mapped into memory and checked in full before the first read.
//
//   file = header_bytes (u64, little endian) | header (JSON) | data
//   header = {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, .., "__metadata__": {..}}
//
// A file is refused unless its tensors cover the data area exactly, without gaps or overlaps, and each has as many
// bytes as its shape and dtype need. See docs/checkpoints.md.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "multihead/output_file.hpp"
#include "multihead/tensor.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // ranks and axes are int, those of std::array are not
namespace multihead {

/// One tensor as it is stored in a file.
struct StoredTensor {
  std::string dtype;                ///< as the file spells it: "F32", "BF16", "I64", ..
  std::vector<index_t> shape;       ///< row-major
  std::span<const std::byte> data;  ///< little endian, possibly unaligned
};

/// The tensors of one file, or of all shards of an index. Copies share the mapping, which exists as long as any copy.
/// The files must not be truncated in this time: reading would raise the signal SIGBUS.
class MULTIHEAD_API Safetensors {
 public:
  /// The names of all tensors, sorted.
  const std::vector<std::string>& names() const;

  /// The tensor of this name, or null if there is none.
  const StoredTensor* find(std::string_view name) const;

  /// The tensor of this name. @throws CheckpointError  if there is none
  const StoredTensor& at(std::string_view name) const;

  /// A copy converted to T, which is float or double.
  /// @throws CheckpointError   if there is no such tensor, or its rank is not R
  /// @throws UnsupportedError  if its stored dtype is not F32, F64, BF16 or F16
  template <class T, int R>
  Tensor<T, R> read(std::string_view name) const {
    std::array<index_t, R> shape{};
    const StoredTensor& stored = checked(name, R, shape.data());
    Tensor<T, R> result(shape);
    convert(stored, name, dtype_of<T>, result.data());
    return result;
  }

  /// A view of the stored data as T, not a copy; absent if the stored dtype is not that of T or the data is unaligned.
  /// @throws CheckpointError  if there is no such tensor, or its rank is not R
  template <class T, int R>
  TensorView<const T, R> view(std::string_view name) const {
    std::array<index_t, R> shape{};
    const StoredTensor& stored = checked(name, R, shape.data());
    const bool fits = holds(stored, dtype_of<T>, alignof(T));
    return fits ? TensorView<const T, R>(reinterpret_cast<const T*>(stored.data.data()), shape)
                : TensorView<const T, R>();
  }

  /// The strings of "__metadata__" in the header; of the first shard if there are several.
  const std::map<std::string, std::string>& metadata() const;

 private:
  friend Safetensors load_safetensors(const std::filesystem::path&);
  struct MULTIHEAD_LOCAL Impl;

  const StoredTensor& checked(std::string_view name, int rank, index_t* shape) const;
  static bool holds(const StoredTensor& stored, DType dtype, std::size_t alignment);
  void convert(const StoredTensor& stored, std::string_view name, DType dtype, void* out) const;

  std::shared_ptr<const Impl> impl_;
};

/// Maps a .safetensors file, the shards of a .index.json, or a folder: its model.safetensors or, if there is none, its
/// model.safetensors.index.json.
///
/// Shards must be in the folder of their index, and each tensor of the index must be in the shard that the index names.
/// @throws CheckpointError  if a file is missing or breaks a rule of the format
/// Cost  reads the headers only.
MULTIHEAD_API Safetensors load_safetensors(const std::filesystem::path& path);

/// A tensor to be written. `data` is row-major, little endian.
struct TensorToSave {
  std::string name;
  StoredTensor tensor;
};

/// @throws ShapeError  if the view is not contiguous
template <class T, int R>
TensorToSave tensor_to_save(std::string name, TensorView<T, R> view);

/// Writes tensors in order of decreasing element size, then by name: the same tensors always give the same bytes, and
/// every tensor is aligned. The file appears under its name only when it is complete; after an error, an existing file
/// is unchanged. Links, pipes and devices are treated as by OutputFile.
/// @throws ShapeError       if two names are equal, or bytes and shape disagree
/// @throws CheckpointError  if the file cannot be written
MULTIHEAD_API void save_safetensors(const std::filesystem::path& path, std::span<const TensorToSave> tensors,
                                    const std::map<std::string, std::string>& metadata = {});
/// The same, written to `file`. The caller calls file.finish().
/// @throws ShapeError, WriteError
MULTIHEAD_API void save_safetensors(OutputFile& file, std::span<const TensorToSave> tensors,
                                    const std::map<std::string, std::string>& metadata = {});

namespace detail {
MULTIHEAD_API TensorToSave contiguous_tensor(std::string name, DType dtype, std::span<const index_t> shape,
                                             const void* data, bool contiguous);
}

template <class T, int R>
TensorToSave tensor_to_save(std::string name, TensorView<T, R> view) {
  return detail::contiguous_tensor(std::move(name), dtype_of<T>, view.shape(), view.data(), view.is_contiguous());
}

}  // namespace multihead
#pragma GCC diagnostic pop
