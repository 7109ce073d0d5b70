// The messages of an ONNX file, out of bytes in memory.
#pragma once

#include "multihead/onnx/file.hpp"
#include "onnx/protobuf.hpp"

namespace multihead {

/// ModelProto, all of source.bytes.
/// @throws CheckpointError, UnsupportedError  as load_onnx_graph
OnnxGraph read_model_proto(const ProtobufSource& source);

/// TensorProto: a dense tensor.
/// @throws CheckpointError   if shape, type and data contradict each other
/// @throws UnsupportedError  if the data are strings, lie in another file, or are of a type that is not in OnnxType
NamedOnnxTensor read_tensor_proto(ProtobufMessage message, const ProtobufSource& source);

}  // namespace multihead
