// Reads ONNX files (.onnx models, .pb tensors), as far as models of the supported operators need: graph, nodes,
// attributes of the kinds INT and FLOAT, and dense numeric tensors that are stored in the file itself.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "multihead/onnx/tensor.hpp"

namespace multihead {

/// An attribute's value: of kind INT or FLOAT; std::monostate for attributes of other kinds, which are not read.
using OnnxAttribute = std::variant<std::monostate, index_t, float>;

struct OnnxNode {
  std::string op_type;
  std::string domain;                ///< "" or "ai.onnx" for operators of the standard
  std::vector<std::string> inputs;   ///< names; "" = an optional input that is not given
  std::vector<std::string> outputs;  ///< names; "" = an optional output that is not wanted
  std::map<std::string, OnnxAttribute> attributes;
};

struct OnnxGraph {
  index_t opset = 0;  ///< version of the operators of the standard that the model uses
  std::vector<OnnxNode> nodes;
  std::vector<std::string> inputs;  ///< as listed in the file; those with an initializer are not passed by the caller
  std::vector<std::string> outputs;
  std::map<std::string, OnnxTensor> initializers;
};

struct NamedOnnxTensor {
  std::string name;
  OnnxTensor tensor;
};

/// Reads a serialised ModelProto.
/// @throws CheckpointError   if the file is missing, damaged or contradicts itself
/// @throws UnsupportedError  if it contains external data, sparse tensors or strings, which are not supported
MULTIHEAD_API OnnxGraph load_onnx_graph(const std::filesystem::path& path);

/// Reads a serialised TensorProto.
/// @throws CheckpointError, UnsupportedError  as load_onnx_graph
MULTIHEAD_API NamedOnnxTensor load_onnx_tensor(const std::filesystem::path& path);

}  // namespace multihead
