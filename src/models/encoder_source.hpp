// The tensors of a checkpoint, found by the names that its family uses.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "models/naming_scheme.hpp"
#include "multihead/safetensors.hpp"

namespace multihead {

class EncoderSource {
 public:
  /// Opens the safetensors files of a folder and finds out which prefix stands before the names.
  /// @param function  the function name in error texts; it and the scheme must outlive the source
  /// @throws CheckpointError, UnsupportedError
  EncoderSource(const std::filesystem::path& folder, const NamingScheme& scheme, std::string_view function);

  const std::filesystem::path& folder() const { return folder_; }
  const Safetensors& file() const { return file_; }

  /// The full name under which a parameter is stored, empty where it is not. Old files call the parameters of a
  /// LayerNorm gamma and beta.
  std::string stored_name(const std::string& name) const;
  bool contains(const std::string& name) const { return !stored_name(name).empty(); }

  /// @throws CheckpointError  if the parameter is not there
  const std::vector<index_t>& shape_of(const std::string& name) const;
  /// @throws CheckpointError  if it has another shape
  void expect_shape(const std::string& name, std::span<const index_t> expected) const;

  /// Fills a tensor that has the expected shape.
  /// @throws CheckpointError  if it is stored with another, or holds a number that is not finite as f32
  void read(const std::string& name, Tensor<float, 1>& tensor) const { read_into(name, tensor); }
  void read(const std::string& name, Tensor<float, 2>& tensor) const { read_into(name, tensor); }

 private:
  template <int R>
  void read_into(const std::string& name, Tensor<float, R>& tensor) const;

  std::filesystem::path folder_;
  std::string_view function_;
  Safetensors file_;
  std::string prefix_;
};

}  // namespace multihead
