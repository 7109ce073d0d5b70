// The messages of onnx.proto that are read, by field number; fields that are not named here are passed over.
#include "multihead/onnx/file.hpp"

#include "core/file_error.hpp"
#include "core/mapped_file.hpp"
#include "onnx/proto.hpp"
#include "onnx/protobuf.hpp"

namespace multihead {
namespace {

template <class F>
void for_each_field(ProtobufMessage message, F&& f) {
  while (const auto field = message.next()) f(message, *field);
}

// AttributeProto: 1 name, 2 f, 3 i, 20 type (1 FLOAT, 2 INT).
void read_attribute(ProtobufMessage message, OnnxNode& node) {
  std::string name;
  std::int64_t type = 0, integer = 0;
  float number = 0;
  for_each_field(message, [&](const ProtobufMessage& m, const ProtobufField& field) {
    switch (field.number) {
      case 1: name = m.text(field); break;
      case 2: number = m.number(field); break;
      case 3: integer = m.integer(field); break;
      case 20: type = m.integer(field); break;
      default: break;
    }
  });
  OnnxAttribute value;
  if (type == 1) value = number;
  if (type == 2) value = index_t{integer};
  node.attributes.insert_or_assign(std::move(name), value);
}

// NodeProto: 1 input, 2 output, 4 op_type, 5 attribute, 7 domain.
OnnxNode read_node(ProtobufMessage message) {
  OnnxNode node;
  for_each_field(message, [&](const ProtobufMessage& m, const ProtobufField& field) {
    switch (field.number) {
      case 1: node.inputs.push_back(m.text(field)); break;
      case 2: node.outputs.push_back(m.text(field)); break;
      case 4: node.op_type = m.text(field); break;
      case 5: read_attribute(m.message(field), node); break;
      case 7: node.domain = m.text(field); break;
      default: break;
    }
  });
  return node;
}

// ValueInfoProto: 1 name.
std::string read_value_name(ProtobufMessage message) {
  std::string name;
  for_each_field(message, [&](const ProtobufMessage& m, const ProtobufField& field) {
    if (field.number == 1) name = m.text(field);
  });
  return name;
}

// GraphProto: 1 node, 5 initializer, 11 input, 12 output, 15 sparse_initializer.
void read_graph(ProtobufMessage message, const ProtobufSource& source, OnnxGraph& graph) {
  for_each_field(message, [&](const ProtobufMessage& m, const ProtobufField& field) {
    switch (field.number) {
      case 1: graph.nodes.push_back(read_node(m.message(field))); break;
      case 5: {
        NamedOnnxTensor named = read_tensor_proto(m.message(field), source);
        graph.initializers.insert_or_assign(std::move(named.name), std::move(named.tensor));
        break;
      }
      case 11: graph.inputs.push_back(read_value_name(m.message(field))); break;
      case 12: graph.outputs.push_back(read_value_name(m.message(field))); break;
      case 15:
        throw UnsupportedError(error_text(source.function, "sparse initializers are not read", {}) + " (" +
                               quote(source.path.string()) + ")");
      default: break;
    }
  });
}

// OperatorSetIdProto: 1 domain, 2 version.
void read_opset(ProtobufMessage message, OnnxGraph& graph) {
  std::string domain;
  std::int64_t version = 0;
  for_each_field(message, [&](const ProtobufMessage& m, const ProtobufField& field) {
    if (field.number == 1) domain = m.text(field);
    if (field.number == 2) version = m.integer(field);
  });
  if (domain.empty() || domain == "ai.onnx") graph.opset = version;
}

}  // namespace

// ModelProto: 7 graph, 8 opset_import.
OnnxGraph read_model_proto(const ProtobufSource& source) {
  OnnxGraph graph;
  for_each_field(ProtobufMessage(source, source.bytes), [&](const ProtobufMessage& m, const ProtobufField& field) {
    if (field.number == 7) read_graph(m.message(field), source, graph);
    if (field.number == 8) read_opset(m.message(field), graph);
  });
  require_file(graph.opset > 0 && !graph.nodes.empty(), source.path, source.function,
               "a model must have an opset and a graph with a node",
               {{"opset", graph.opset}, {"nodes", graph.nodes.size()}, {"file_bytes", source.bytes.size()}});
  return graph;
}

OnnxGraph load_onnx_graph(const std::filesystem::path& path) {
  const MappedFile file(path, "load_onnx_graph");
  return read_model_proto({path, "load_onnx_graph", file.bytes()});
}

NamedOnnxTensor load_onnx_tensor(const std::filesystem::path& path) {
  const MappedFile file(path, "load_onnx_tensor");
  const ProtobufSource source{path, "load_onnx_tensor", file.bytes()};
  return read_tensor_proto(ProtobufMessage(source, source.bytes), source);
}

}  // namespace multihead
