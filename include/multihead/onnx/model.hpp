// Runs models that consist of the operators of onnx/operators.hpp.
#pragma once

#include <span>
#include <vector>

#include "multihead/onnx/file.hpp"
#include "multihead/threads.hpp"

namespace multihead {

/// Runs the nodes of a graph in the order of the file. Each must be an Attention or a RotaryEmbedding.
///
/// @param inputs  one for each graph input that has no initializer, in the order of the graph
/// @returns one for each graph output, in the order of the graph
/// @throws CheckpointError   if the graph contradicts itself, or the number of inputs is wrong
/// @throws UnsupportedError  if a node has another operator or an unknown attribute
/// @throws ShapeError        as onnx_attention and onnx_rotary_embedding
MULTIHEAD_API std::vector<OnnxTensor> run_onnx_graph(const OnnxGraph& graph, std::span<const OnnxView> inputs,
                                                     Executor* threads = nullptr);

}  // namespace multihead
