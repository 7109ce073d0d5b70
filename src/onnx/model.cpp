#include "multihead/onnx/model.hpp"

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>

#include "core/file_error.hpp"
#include "core/require.hpp"
#include "multihead/onnx/operators.hpp"

namespace multihead {
namespace {

constexpr const char* kName = "run_onnx_graph";

// The attributes of a node, each of a known name and kind.
class Attributes {
 public:
  Attributes(const OnnxNode& node, std::initializer_list<std::string_view> known) : node_(node) {
    for (const auto& [name, value] : node.attributes) {
      require<UnsupportedError>(std::find(known.begin(), known.end(), name) != known.end(), kName,
                                "an attribute must be one of the operator's",
                                {{"op_type", quote(node.op_type)}, {"attribute", quote(name)}});
    }
  }

  std::optional<index_t> integer(const char* name) const { return get<index_t>(name, "INT"); }
  std::optional<double> number(const char* name) const { return get<float>(name, "FLOAT"); }

  bool flag(const char* name) const {
    const index_t value = integer(name).value_or(0);
    require<CheckpointError>(value == 0 || value == 1, kName, "a flag must be 0 or 1", {{name, value}});
    return value == 1;
  }

 private:
  template <class T>
  std::optional<T> get(const char* name, const char* kind) const {
    const auto found = node_.attributes.find(name);
    if (found == node_.attributes.end()) return {};
    const T* value = std::get_if<T>(&found->second);
    require<CheckpointError>(value != nullptr, kName, "an attribute must be of its kind",
                             {{"op_type", quote(node_.op_type)}, {"attribute", quote(name)}, {"expected", kind}});
    return *value;
  }

  const OnnxNode& node_;
};

// Values by name while a graph runs. The owners stay where they are, so that views of them stay good.
class Values {
 public:
  explicit Values(const OnnxGraph& graph) {
    for (const auto& [name, tensor] : graph.initializers) views_[name] = tensor;
  }

  void set(const std::string& name, const OnnxView& view) { views_[name] = view; }

  void keep(const std::string& name, OnnxTensor tensor) {
    if (name.empty()) return;
    owners_.push_back(std::move(tensor));
    views_[name] = owners_.back();
  }

  /// The node's input `index`; absent if it is left out.
  OnnxView input(const OnnxNode& node, std::size_t index) const {
    if (index >= node.inputs.size() || node.inputs[index].empty()) return {};
    const auto found = views_.find(node.inputs[index]);
    require<CheckpointError>(found != views_.end(), kName, "a node's input must be given or made before it",
                             {{"op_type", quote(node.op_type)}, {"input", quote(node.inputs[index])}});
    return found->second;
  }

  OnnxTensor take(const std::string& name) {
    const auto found = std::find_if(owners_.begin(), owners_.end(), [&](const OnnxTensor& tensor) {
      const auto view = views_.find(name);
      return view != views_.end() && view->second.present && view->second.data == tensor.bytes();
    });
    require<CheckpointError>(found != owners_.end(), kName, "a graph output must be made by a node, once",
                             {{"output", quote(name)}});
    return std::move(*found);
  }

 private:
  std::map<std::string, OnnxView> views_;
  std::deque<OnnxTensor> owners_;
};

bool wants(const OnnxNode& node, std::size_t output) {
  return output < node.outputs.size() && !node.outputs[output].empty();
}

void require_counts(const OnnxNode& node, std::size_t most_inputs, std::size_t most_outputs) {
  require<CheckpointError>(
      node.inputs.size() <= most_inputs && node.outputs.size() <= most_outputs && wants(node, 0), kName,
      "a node must have at most the inputs and outputs of its operator, and the first",
      {{"op_type", quote(node.op_type)}, {"inputs", node.inputs.size()}, {"outputs", node.outputs.size()}});
}

void run_attention(const OnnxNode& node, index_t opset, Executor* threads, Values& values) {
  const Attributes attributes(node,
                              {"is_causal", "kv_num_heads", "left_window_size", "q_num_heads", "qk_matmul_output_mode",
                               "right_window_size", "scale", "softcap", "softmax_precision"});
  require_counts(node, 7, 4);
  OnnxAttentionOptions options;
  options.opset = opset;
  options.is_causal = attributes.flag("is_causal");
  options.left_window_size = attributes.integer("left_window_size").value_or(-1);
  options.right_window_size = attributes.integer("right_window_size").value_or(-1);
  options.q_num_heads = attributes.integer("q_num_heads");
  options.kv_num_heads = attributes.integer("kv_num_heads");
  options.scale = attributes.number("scale");
  options.softcap = attributes.number("softcap").value_or(0.0);
  if (const auto precision = attributes.integer("softmax_precision")) {
    constexpr index_t kLargest = std::numeric_limits<std::int32_t>::max();
    options.softmax_precision = static_cast<OnnxType>(std::clamp<index_t>(*precision, -1, kLargest));
  }
  options.qk_matmul_output_mode = attributes.integer("qk_matmul_output_mode").value_or(0);
  options.present_key = wants(node, 1);
  options.present_value = wants(node, 2);
  options.qk_matmul_output = wants(node, 3);
  options.threads = threads;
  OnnxAttentionOutput output =
      onnx_attention({values.input(node, 0), values.input(node, 1), values.input(node, 2), values.input(node, 3),
                      values.input(node, 4), values.input(node, 5), values.input(node, 6)},
                     options);
  values.keep(node.outputs[0], std::move(output.y));
  if (options.present_key) values.keep(node.outputs[1], std::move(output.present_key));
  if (options.present_value) values.keep(node.outputs[2], std::move(output.present_value));
  if (options.qk_matmul_output) values.keep(node.outputs[3], std::move(output.qk_matmul_output));
}

void run_rotary_embedding(const OnnxNode& node, Values& values) {
  const Attributes attributes(node, {"interleaved", "num_heads", "rotary_embedding_dim"});
  require_counts(node, 4, 1);
  OnnxRotaryOptions options;
  options.interleaved = attributes.flag("interleaved");
  options.rotary_embedding_dim = attributes.integer("rotary_embedding_dim").value_or(0);
  options.num_heads = attributes.integer("num_heads");
  values.keep(node.outputs[0], onnx_rotary_embedding({values.input(node, 0), values.input(node, 1),
                                                      values.input(node, 2), values.input(node, 3)},
                                                     options));
}

void run_node(const OnnxNode& node, index_t opset, Executor* threads, Values& values) {
  const bool standard = node.domain.empty() || node.domain == "ai.onnx";
  if (standard && node.op_type == "Attention") return run_attention(node, opset, threads, values);
  if (standard && node.op_type == "RotaryEmbedding") return run_rotary_embedding(node, values);
  throw UnsupportedError(error_text(kName, "a node must be an Attention or a RotaryEmbedding of the standard",
                                    {{"op_type", quote(node.op_type)}, {"domain", quote(node.domain)}}));
}

}  // namespace

std::vector<OnnxTensor> run_onnx_graph(const OnnxGraph& graph, std::span<const OnnxView> inputs, Executor* threads) {
  std::vector<std::string> names = graph.inputs;
  std::erase_if(names, [&](const std::string& name) { return graph.initializers.contains(name); });
  require<CheckpointError>(inputs.size() == names.size(), kName, "each graph input must be given",
                           {{"inputs", inputs.size()}, {"graph_inputs", names.size()}});
  Values values(graph);
  for (std::size_t n = 0; n < names.size(); ++n) values.set(names[n], inputs[n]);
  for (const OnnxNode& node : graph.nodes) run_node(node, graph.opset, threads, values);
  std::vector<OnnxTensor> outputs;
  for (const std::string& name : graph.outputs) outputs.push_back(values.take(name));
  return outputs;
}

}  // namespace multihead
