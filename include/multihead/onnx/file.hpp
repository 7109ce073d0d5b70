// Files of the ONNX format (.onnx models, .pb tensors), as far as a model of a few operators needs: graph, nodes,
// attributes of kind int and float, dense numeric tensors that lie in the file itself.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "multihead/onnx/tensor.hpp"

namespace multihead {

/// An attribute's value: of kind INT or FLOAT; std::monostate stands for the kinds that are not read.
using OnnxAttribute = std::variant<std::monostate, index_t, float>;

struct OnnxNode {
  std::string op_type;
  std::string domain;                ///< "" is the standard's own, also written "ai.onnx"
  std::vector<std::string> inputs;   ///< names; "" = an optional input that is not given
  std::vector<std::string> outputs;  ///< names; "" = an optional output that is not wanted
  std::map<std::string, OnnxAttribute> attributes;
};

struct OnnxGraph {
  index_t opset = 0;  ///< version of the standard's operators that the model imports
  std::vector<OnnxNode> nodes;
  std::vector<std::string> inputs;  ///< as the file lists them; initializers among them are not asked of a caller
  std::vector<std::string> outputs;
  std::map<std::string, OnnxTensor> initializers;
};

struct NamedOnnxTensor {
  std::string name;
  OnnxTensor tensor;
};

/// Reads a serialised ModelProto.
/// @throws CheckpointError   if the file is missing, damaged or contradicts itself
/// @throws UnsupportedError  if it needs what is not read: external data, sparse tensors, strings
MULTIHEAD_API OnnxGraph load_onnx_graph(const std::filesystem::path& path);

/// Reads a serialised TensorProto.
/// @throws CheckpointError, UnsupportedError  as load_onnx_graph
MULTIHEAD_API NamedOnnxTensor load_onnx_tensor(const std::filesystem::path& path);

}  // namespace multihead
