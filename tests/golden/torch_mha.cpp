// The layer against torch.nn.MultiheadAttention, outputs, probabilities and all gradients: torch_mha.py made the data.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "multihead/nn/attention_layouts.hpp"

namespace multihead::nn {
namespace {

using nlohmann::json;

json document() {
  std::ifstream file(MULTIHEAD_SOURCE_DIR "/tests/golden/data/torch_mha.json");
  return json::parse(file);
}

double number(const json& value) {
  return value.is_string() ? -std::numeric_limits<double>::infinity() : value.get<double>();
}

template <class T>
NamedTensor<T> named_tensor(const json& from) {
  NamedTensor<T> tensor{from.at("shape").get<std::vector<index_t>>(), {}};
  for (const json& value : from.at("values")) tensor.values.push_back(T(number(value)));
  return tensor;
}

template <class T, int R>
Tensor<T, R> dense(const json& from) {
  typename Tensor<T, R>::Extents shape{};
  std::copy_n(from.at("shape").begin(), R, shape.begin());
  Tensor<T, R> tensor(shape);
  index_t n = 0;
  for (const json& value : from.at("values")) {
    if constexpr (std::is_same_v<T, bool>) {
      tensor.data()[n++] = value.get<bool>();
    } else {
      tensor.data()[n++] = T(number(value));
    }
  }
  return tensor;
}

// torch's masks as options of attention; owns what they point to.
template <class T>
struct TorchMasks {
  Tensor<bool, 2> visible;
  Tensor<bool, 4> visible_of_head;
  Tensor<T, 4> bias;
  AttentionOptions options;

  TorchMasks(const json& masks, index_t num_heads) {
    const bool has_mask = masks.contains("attn_mask"), has_padding = masks.contains("key_padding_mask");
    if (has_mask && masks["attn_mask"]["shape"].size() == 3) {
      const Tensor<bool, 3> hidden = dense<bool, 3>(masks["attn_mask"]);
      visible_of_head = visible_from_torch_attn_mask(hidden, num_heads);
      options.mask.visible = visible_of_head.view();
    } else if (has_mask && masks["attn_mask"]["values"][0].is_boolean()) {
      const Tensor<bool, 2> hidden = dense<bool, 2>(masks["attn_mask"]);
      visible = visible_from_torch_attn_mask(hidden);
      options.mask.visible = visible.view();
    } else if (has_mask) {  // both float: they add up
      const Tensor<T, 2> mask = dense<T, 2>(masks["attn_mask"]), padding = dense<T, 2>(masks["key_padding_mask"]);
      bias = Tensor<T, 4>({padding.shape(0), 1, mask.shape(0), mask.shape(1)});
      for (index_t b = 0; b < bias.shape(0); ++b) {
        for (index_t i = 0; i < bias.shape(2); ++i) {
          for (index_t j = 0; j < bias.shape(3); ++j) bias(b, 0, i, j) = mask(i, j) + padding(b, j);
        }
      }
      options.bias = bias.view();
    } else if (has_padding) {
      const Tensor<bool, 2> hidden = dense<bool, 2>(masks["key_padding_mask"]);
      visible_of_head = visible_from_torch_key_padding_mask(hidden);
      options.mask.visible = visible_of_head.view();
    }
  }
};

template <class T>
MultiHeadAttention<T> layer_of(const json& c, const NamedTensors<T>& tensors) {
  MultiHeadConfig config = torch_config(views_of(tensors), c.at("num_heads").get<index_t>());
  config.zero_attn = c.at("zero_attn").get<bool>();
  return MultiHeadAttention<T>(config);
}

template <class T>
class Comparison {
 public:
  Comparison(const json& results, double factor) : results_(results), factor_(factor) {}

  // The f32 layer errs at most `factor` times as much as torch in f32, the f64 layer as much as that predicts for f64;
  // plus a few ulp.
  void operator()(const std::string& name, const T* values, index_t size) {
    const json& expected = results_.at(name);
    ASSERT_EQ(static_cast<index_t>(expected.at("values").size()), size) << name;
    double error = 0, largest = 0;
    for (index_t n = 0; n < size; ++n) {
      const double truth = expected["values"][static_cast<std::size_t>(n)].get<double>();
      error = std::max(error, std::abs(static_cast<double>(values[n]) - truth));
      largest = std::max(largest, std::abs(truth));
    }
    const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
    const double of_torch = expected.at("f32_error").get<double>() * (epsilon / 0x1p-23);
    EXPECT_LE(error, factor_ * of_torch + 8 * epsilon * largest) << name;
    ++compared_;
  }

  std::size_t compared() const { return compared_; }

 private:
  const json& results_;
  double factor_;
  std::size_t compared_ = 0;
};

// torch gives the keys of bias_kv and zero_attn columns of their own, we what they leave to the others: their sum.
json with_one_extra_column(json probs, index_t num_keys) {
  const index_t columns = probs.at("shape")[3].get<index_t>();
  json values = json::array();
  for (std::size_t n = 0; n < probs["values"].size(); n += static_cast<std::size_t>(columns)) {
    double extra = 0;
    for (index_t j = 0; j < columns; ++j) {
      const double p = probs["values"][n + static_cast<std::size_t>(j)].get<double>();
      j < num_keys ? values.push_back(p) : void(extra += p);
    }
    values.push_back(extra);
  }
  probs["values"] = values;
  return probs;
}

template <class T>
std::vector<T> with_what_is_left(const Tensor<T, 4>& probs) {
  std::vector<T> values;
  for (const T* row = probs.data(); row < probs.data() + probs.size(); row += probs.shape(3)) {
    T left = 1;
    for (index_t j = 0; j < probs.shape(3); ++j) left -= row[j];
    values.insert(values.end(), row, row + probs.shape(3));
    values.push_back(left);
  }
  return values;
}

template <class T>
void compare(const json& c) {
  SCOPED_TRACE(c.at("name").get<std::string>());
  NamedTensors<T> tensors;
  for (const auto& [name, value] : c.at("parameters").items()) tensors[name] = named_tensor<T>(value);
  MultiHeadAttention<T> layer = layer_of(c, tensors);
  load_layout(AttentionLayout::torch, views_of(tensors), layer);

  const json& inputs = c.at("inputs");
  const bool cross = inputs.contains("x_k");
  const Tensor<T, 3> x_q = dense<T, 3>(inputs.at("x_q")), dy = dense<T, 3>(inputs.at("dy"));
  const Tensor<T, 3> x_k = cross ? dense<T, 3>(inputs.at("x_k")) : Tensor<T, 3>();
  const Tensor<T, 3> x_v = cross ? dense<T, 3>(inputs.at("x_v")) : Tensor<T, 3>();
  MultiHeadInput<T> input{.x_q = x_q.view()};
  if (cross) input.x_k = x_k.view(), input.x_v = x_v.view();
  const TorchMasks<T> masks(c.at("masks"), layer.num_heads());
  const MultiHeadOptions<T> options{.attention = masks.options};

  MultiHeadActivations<T> activations;
  Tensor<T, 3> y(dy.shape()), dx_q(x_q.shape()), dx_k(x_k.shape()), dx_v(x_v.shape());
  Tensor<T, 4> probs({x_q.shape(0), layer.num_heads(), x_q.shape(1), cross ? x_k.shape(1) : x_q.shape(1)});
  layer.forward(input, {.y = y.view(), .probs = probs.view()}, options, &activations);
  MultiHeadAttention<T> gradients = layer_of(c, tensors);
  gradients.parameters() = layer.zero_gradients();
  MultiHeadGradients<T> wanted{.dx_q = dx_q.view(), .parameters = &gradients.parameters()};
  if (cross) wanted.dx_k = dx_k.view(), wanted.dx_v = dx_v.view();
  layer.backward(input, activations, dy.view(), wanted, options);

  json results = c.at("results");
  results["probs"] = with_one_extra_column(results["probs"], probs.shape(3));
  Comparison<T> forward(results, 2), backward(results, 3);
  forward("y", y.data(), y.size());
  const std::vector<T> rows = with_what_is_left(probs);
  forward("probs", rows.data(), static_cast<index_t>(rows.size()));
  backward("dx_q", dx_q.data(), dx_q.size());
  if (cross) backward("dx_k", dx_k.data(), dx_k.size());
  if (cross) backward("dx_v", dx_v.data(), dx_v.size());
  for (const auto& [name, d] : save_layout<T>(AttentionLayout::torch, gradients)) {
    backward("d " + name, d.values.data(), static_cast<index_t>(d.values.size()));
  }
  EXPECT_EQ(forward.compared() + backward.compared(), results.size());
}

TEST(TorchMha, SameOutputsAndGradientsInF64) {
  for (const json& c : document().at("cases")) compare<double>(c);
}

TEST(TorchMha, SameOutputsAndGradientsInF32) {
  for (const json& c : document().at("cases")) compare<float>(c);
}

}  // namespace
}  // namespace multihead::nn
