#include "multihead/nn/attention_layouts.hpp"

#include <algorithm>

#include "core/require.hpp"

namespace multihead::nn {
namespace {

// One parameter [rows, cols] (cols = 1 for a vector) and where a layout stores it:
//   parameter(r, c) = values[offset + r * row_step + c * col_step]        of the tensor `name`
template <class P>
struct Part {
  std::string name;
  std::vector<index_t> shape;
  index_t offset, row_step, col_step;
  P* data;
  index_t rows, cols;
};

const char* name_of(AttentionLayout layout) {
  switch (layout) {
    case AttentionLayout::torch: return "torch";
    case AttentionLayout::keras: return "keras";
    case AttentionLayout::gpt2: return "gpt2";
    case AttentionLayout::gpt2_cross: return "gpt2_cross";
  }
  return "?";
}

// Collects the parameters of a layer, without those that it does not have. P is T or const T.
template <class P>
struct Parts {
  std::vector<Part<P>> list;

  // Rows [first, first + rows) of a tensor [total, cols], the layout of linear layers in most libraries.
  template <class Weight>
  void rows(std::string name, Weight& w, index_t first, index_t total) {
    if (w.data())
      list.push_back({name, {total, w.shape(1)}, first * w.shape(1), w.shape(1), 1, w.data(), w.shape(0), w.shape(1)});
  }
  // Columns [first, first + rows) of a tensor of `shape` whose last axes hold `total` outputs: [in, out].
  template <class Weight>
  void columns(std::string name, Weight& w, std::vector<index_t> shape, index_t first, index_t total) {
    if (w.data()) list.push_back({name, std::move(shape), first, 1, total, w.data(), w.shape(0), w.shape(1)});
  }
  // Entries [first, first + size) of a tensor of `shape`.
  template <class Bias>
  void entries(std::string name, Bias& b, std::vector<index_t> shape, index_t first = 0) {
    if (b.data()) list.push_back({name, std::move(shape), first, 1, 1, b.data(), b.size(), 1});
  }
};

template <class P, class Parameters>
std::vector<Part<P>> torch_parts(Parameters& p, const MultiHeadExtents& e) {
  const index_t E = e.d_model;
  Parts<P> parts;
  if (e.k_width == E && e.v_width == E) {
    parts.rows("in_proj_weight", p.w_q, 0, 3 * E);
    parts.rows("in_proj_weight", p.w_k, E, 3 * E);
    parts.rows("in_proj_weight", p.w_v, 2 * E, 3 * E);
  } else {
    parts.rows("q_proj_weight", p.w_q, 0, E);
    parts.rows("k_proj_weight", p.w_k, 0, E);
    parts.rows("v_proj_weight", p.w_v, 0, E);
  }
  parts.entries("in_proj_bias", p.b_q, {3 * E}, 0);
  parts.entries("in_proj_bias", p.b_k, {3 * E}, E);
  parts.entries("in_proj_bias", p.b_v, {3 * E}, 2 * E);
  parts.rows("out_proj.weight", p.w_o, 0, E);
  parts.entries("out_proj.bias", p.b_o, {E});
  parts.entries("bias_k", p.bias_k, {1, 1, E});
  parts.entries("bias_v", p.bias_v, {1, 1, E});
  return std::move(parts.list);
}

template <class P, class Parameters>
std::vector<Part<P>> keras_parts(Parameters& p, const MultiHeadExtents& e) {
  const index_t H = e.num_heads, D = e.head_dim, Dv = e.head_dim_v;
  Parts<P> parts;
  parts.columns("query_dense/vars/0", p.w_q, {e.d_model, H, D}, 0, H * D);
  parts.columns("key_dense/vars/0", p.w_k, {e.k_width, H, D}, 0, H * D);
  parts.columns("value_dense/vars/0", p.w_v, {e.v_width, H, Dv}, 0, H * Dv);
  parts.columns("output_dense/vars/0", p.w_o, {H, Dv, e.y_width}, 0, e.y_width);
  parts.entries("query_dense/vars/1", p.b_q, {H, D});
  parts.entries("key_dense/vars/1", p.b_k, {H, D});
  parts.entries("value_dense/vars/1", p.b_v, {H, Dv});
  parts.entries("output_dense/vars/1", p.b_o, {e.y_width});
  return std::move(parts.list);
}

template <class P, class Parameters>
std::vector<Part<P>> gpt2_parts(Parameters& p, const MultiHeadExtents& e, bool cross) {
  const index_t E = e.d_model, packed = cross ? 2 * E : 3 * E;
  Parts<P> parts;
  parts.columns(cross ? "q_attn.weight" : "c_attn.weight", p.w_q, {E, cross ? E : packed}, 0, cross ? E : packed);
  parts.columns("c_attn.weight", p.w_k, {E, packed}, packed - 2 * E, packed);
  parts.columns("c_attn.weight", p.w_v, {E, packed}, packed - E, packed);
  parts.columns("c_proj.weight", p.w_o, {E, E}, 0, E);
  parts.entries(cross ? "q_attn.bias" : "c_attn.bias", p.b_q, {cross ? E : packed}, 0);
  parts.entries("c_attn.bias", p.b_k, {packed}, packed - 2 * E);
  parts.entries("c_attn.bias", p.b_v, {packed}, packed - E);
  parts.entries("c_proj.bias", p.b_o, {E});
  return std::move(parts.list);
}

template <class P, class Layer>
std::vector<Part<P>> parts_of(AttentionLayout layout, Layer& layer) {
  switch (layout) {
    case AttentionLayout::torch: return torch_parts<P>(layer.parameters(), layer.extents());
    case AttentionLayout::keras: return keras_parts<P>(layer.parameters(), layer.extents());
    default: return gpt2_parts<P>(layer.parameters(), layer.extents(), layout == AttentionLayout::gpt2_cross);
  }
}

template <class T>
void check_holds(const char* function, AttentionLayout layout, const MultiHeadAttention<T>& layer) {
  const MultiHeadConfig& c = layer.config();
  const MultiHeadExtents& e = layer.extents();
  const Got name("layout", name_of(layout));
  const bool torch = layout == AttentionLayout::torch, keras = layout == AttentionLayout::keras;
  require<UnsupportedError>(e.num_heads == e.num_kv_heads, function, "the layout has as many kv heads as heads",
                            {name, {"num_heads", e.num_heads}, {"num_kv_heads", e.num_kv_heads}});
  require<UnsupportedError>(
      keras || (e.num_heads * e.head_dim == e.d_model && e.head_dim_v == e.head_dim && e.y_width == e.d_model),
      function, "the layout has heads that fill d_model",
      {name,
       {"num_heads", e.num_heads},
       {"head_dim", e.head_dim},
       {"head_dim_v", e.head_dim_v},
       {"y_width", e.y_width},
       {"d_model", e.d_model}},
      e.num_heads < c.num_heads ? "heads were removed" : "");
  require<UnsupportedError>(torch || keras || (e.k_width == e.d_model && e.v_width == e.d_model), function,
                            "the layout has keys and values of d_model",
                            {name, {"k_width", e.k_width}, {"v_width", e.v_width}, {"d_model", e.d_model}});
  const int biases =
      static_cast<int>(c.b_q) + static_cast<int>(c.b_k) + static_cast<int>(c.b_v) + static_cast<int>(c.b_o);
  require<UnsupportedError>(biases == 4 || (biases == 0 && (torch || keras)), function,
                            torch || keras ? "the layout has all biases or none" : "the layout has all biases",
                            {name, {"biases", biases}});
  require<UnsupportedError>(
      !c.q_norm && !c.k_norm && !c.sinks && (torch || !c.bias_kv), function,
      torch ? "the layout has no norms and no sinks" : "the layout has no norms, no sinks and no bias_kv", {name});
}

template <class T>
void check_tensors(const char* function, AttentionLayout layout, const NamedViews<T>& tensors,
                   const std::vector<Part<T>>& parts) {
  for (const Part<T>& part : parts) {
    const auto found = tensors.find(part.name);
    require<CheckpointError>(found != tensors.end(), function, "every tensor of the layout must be there",
                             {{"layout", name_of(layout)}, {"missing", part.name}});
    require<CheckpointError>(found->second.shape == part.shape, function, "a tensor must have the layout's shape",
                             {{"layout", name_of(layout)},
                              {"tensor", part.name},
                              {"shape", shape_text(found->second.shape)},
                              {"expected", shape_text(part.shape)}});
  }
  const bool gpt2 = layout == AttentionLayout::gpt2 || layout == AttentionLayout::gpt2_cross;
  for (const auto& [name, tensor] : tensors) {
    const std::string& wanted = name;
    const bool known = std::any_of(parts.begin(), parts.end(), [&](const Part<T>& p) { return p.name == wanted; });
    require<CheckpointError>(known || (gpt2 && (name == "bias" || name == "masked_bias")), function,
                             "every tensor must be one of the layout", {{"layout", name_of(layout)}, {"tensor", name}});
  }
}

template <int R>
Tensor<bool, R> inverted(TensorView<const bool, R> hidden) {
  Tensor<bool, R> visible(hidden.shape());
  for (index_t n = 0; n < visible.size(); ++n) {
    index_t at = n, offset = 0;
    for (int axis = R - 1; axis >= 0; --axis) {
      offset += at % hidden.shape(axis) * hidden.stride(axis);
      at /= hidden.shape(axis);
    }
    visible.data()[n] = !hidden.data()[offset];
  }
  return visible;
}

}  // namespace

template <class T>
MultiHeadConfig torch_config(const NamedViews<T>& tensors, index_t num_heads) {
  const char* function = "torch_config";
  const auto width = [&](const std::string& name) {
    const auto found = tensors.find(name);
    require<CheckpointError>(found != tensors.end(), function, "every tensor of the layout must be there",
                             {{"layout", "torch"}, {"missing", name}});
    const std::vector<index_t>& shape = found->second.shape;
    require<CheckpointError>(shape.size() == 2, function, "a weight must have two axes",
                             {{"tensor", name}, {"shape", shape_text(shape)}});
    return shape[1];
  };
  MultiHeadConfig config{.d_model = width("out_proj.weight"), .num_heads = num_heads};
  if (!tensors.contains("in_proj_weight")) {
    config.k_width = width("k_proj_weight");
    config.v_width = width("v_proj_weight");
  }
  config.b_q = config.b_k = config.b_v = tensors.contains("in_proj_bias");
  config.b_o = tensors.contains("out_proj.bias");
  config.bias_kv = tensors.contains("bias_k");
  return config;
}

template <class T>
void load_layout(AttentionLayout layout, const NamedViews<T>& tensors, MultiHeadAttention<T>& layer) {
  check_holds("load_layout", layout, layer);
  const std::vector<Part<T>> parts = parts_of<T>(layout, layer);
  check_tensors("load_layout", layout, tensors, parts);
  for (const Part<T>& part : parts) {
    const T* from = tensors.at(part.name).data + part.offset;
    for (index_t r = 0; r < part.rows; ++r) {
      for (index_t c = 0; c < part.cols; ++c)
        part.data[r * part.cols + c] = from[r * part.row_step + c * part.col_step];
    }
  }
}

template <class T>
NamedTensors<T> save_layout(AttentionLayout layout, const MultiHeadAttention<T>& layer) {
  check_holds("save_layout", layout, layer);
  NamedTensors<T> tensors;
  for (const Part<const T>& part : parts_of<const T>(layout, layer)) {
    NamedTensor<T>& tensor = tensors[part.name];
    tensor.shape = part.shape;
    tensor.values.resize(
        static_cast<std::size_t>(checked_size(part.shape.data(), static_cast<int>(part.shape.size()), sizeof(T))));
    T* to = tensor.values.data() + part.offset;
    for (index_t r = 0; r < part.rows; ++r) {
      for (index_t c = 0; c < part.cols; ++c) to[r * part.row_step + c * part.col_step] = part.data[r * part.cols + c];
    }
  }
  return tensors;
}

Tensor<bool, 2> visible_from_torch_attn_mask(TensorView<const bool, 2> hidden) { return inverted<2>(hidden); }

Tensor<bool, 4> visible_from_torch_attn_mask(TensorView<const bool, 3> hidden, index_t num_heads) {
  const index_t rows = hidden.shape(0);
  require(num_heads > 0 && rows % num_heads == 0, "visible_from_torch_attn_mask",
          "num_heads must divide the mask's first axis, [B*H, Sq, Skv]",
          {{"hidden", shape_text(hidden.shape())}, {"num_heads", num_heads}});
  const index_t step = hidden.stride(0);
  return inverted<4>({hidden.data(),
                      {rows / num_heads, num_heads, hidden.shape(1), hidden.shape(2)},
                      {num_heads * step, step, hidden.stride(1), hidden.stride(2)}});
}

Tensor<bool, 4> visible_from_torch_key_padding_mask(TensorView<const bool, 2> hidden) {
  return inverted<4>(
      {hidden.data(), {hidden.shape(0), 1, 1, hidden.shape(1)}, {hidden.stride(0), 0, 0, hidden.stride(1)}});
}

#define MULTIHEAD_INSTANTIATE(T)                                                            \
  template MultiHeadConfig torch_config(const NamedViews<T>&, index_t);                     \
  template void load_layout(AttentionLayout, const NamedViews<T>&, MultiHeadAttention<T>&); \
  template NamedTensors<T> save_layout(AttentionLayout, const MultiHeadAttention<T>&);
MULTIHEAD_INSTANTIATE(float)
MULTIHEAD_INSTANTIATE(double)
#undef MULTIHEAD_INSTANTIATE

}  // namespace multihead::nn
