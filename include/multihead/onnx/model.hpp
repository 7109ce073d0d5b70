// Runs models that are made of the operators of `onnx/operators.hpp`.
#pragma once

#include <span>
#include <vector>

#include "multihead/onnx/file.hpp"
#include "multihead/threads.hpp"

namespace multihead {

/// Runs the nodes of a graph in the file's order; each is an Attention or a RotaryEmbedding.
///
/// @param inputs  one for each graph input that is not an initializer, in the graph's order
/// @returns one for each graph output, in the graph's order
/// @throws CheckpointError   if the graph contradicts itself or the number of inputs
/// @throws UnsupportedError  if a node is of another operator or has an attribute that is not known
/// @throws ShapeError        as onnx_attention and onnx_rotary_embedding
MULTIHEAD_API std::vector<OnnxTensor> run_onnx_graph(const OnnxGraph& graph, std::span<const OnnxView> inputs,
                                                     Executor* threads = nullptr);

}  // namespace multihead
