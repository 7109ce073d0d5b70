// Layouts of other libraries: what lies where, both ways, and what they cannot hold.
#include <gtest/gtest.h>

#include "multihead/nn/attention_layouts.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/layer_problem.hpp"

namespace multihead::nn {
namespace {

using test::error_of;
using test::Random;
using test::random_tensor;
using test::y_of;

template <class T>
bool same_parameters(const MultiHeadAttention<T>& a, const MultiHeadAttention<T>& b) {
  std::vector<std::vector<T>> values;
  for (const MultiHeadAttention<T>* layer : {&a, &b}) {
    values.emplace_back();
    layer->parameters().for_each(
        [&](const char*, const auto& p) { values.back().insert(values.back().end(), p.data(), p.data() + p.size()); });
  }
  return values[0] == values[1];
}

TEST(MultiHeadLayouts, WhatIsSavedLoadsTheSame) {
  Random random(test::run_seed());
  const std::pair<AttentionLayout, MultiHeadConfig> cases[] = {
      {AttentionLayout::torch, {.d_model = 6, .num_heads = 2}},
      {AttentionLayout::torch, {.d_model = 6, .num_heads = 3, .k_width = 5, .v_width = 4, .bias_kv = true}},
      {AttentionLayout::torch,
       {.d_model = 6, .num_heads = 2, .b_q = false, .b_k = false, .b_v = false, .b_o = false, .zero_attn = true}},
      {AttentionLayout::keras,
       {.d_model = 5, .num_heads = 3, .head_dim = 2, .head_dim_v = 4, .k_width = 6, .v_width = 7, .y_width = 3}},
      {AttentionLayout::gpt2, {.d_model = 6, .num_heads = 3}},
      {AttentionLayout::gpt2_cross, {.d_model = 6, .num_heads = 2}},
  };
  for (const auto& [layout, config] : cases) {
    const auto layer = test::random_layer<float>(config, random);
    const NamedTensors<float> tensors = save_layout(layout, layer);
    MultiHeadAttention<float> loaded(config);
    load_layout(layout, views_of(tensors), loaded);
    EXPECT_TRUE(same_parameters(layer, loaded));
    std::size_t values = 0, parameters = 0;
    for (const auto& [name, tensor] : tensors) values += tensor.values.size();
    layer.parameters().for_each([&](const char*, const auto& p) { parameters += static_cast<std::size_t>(p.size()); });
    EXPECT_EQ(values, parameters);
  }
}

// Attention case 63: [in, out], so a square matrix that is not transposed would give (0, 10).
TEST(MultiHeadLayouts, Gpt2IsTransposed) {
  MultiHeadAttention<float> layer({.d_model = 2, .num_heads = 1});
  NamedTensors<float> tensors;
  tensors["c_attn.weight"] = {{2, 6}, {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15}};
  tensors["c_attn.bias"] = {{6}, std::vector<float>(6)};
  tensors["c_proj.weight"] = {{2, 2}, {0, 1, 10, 11}};
  tensors["c_proj.bias"] = {{2}, {0, 0}};
  tensors["bias"] = {{1, 1, 4, 4}, std::vector<float>(16)};  // a mask that old files carry
  load_layout(AttentionLayout::gpt2, views_of(tensors), layer);
  const auto of_first_input = [](const Tensor<float, 2>& w) { return std::pair(w(0, 0), w(1, 0)); };
  EXPECT_EQ(of_first_input(layer.parameters().w_q), std::pair(0.0f, 1.0f));
  EXPECT_EQ(of_first_input(layer.parameters().w_k), std::pair(2.0f, 3.0f));
  EXPECT_EQ(of_first_input(layer.parameters().w_v), std::pair(4.0f, 5.0f));
  EXPECT_EQ(of_first_input(layer.parameters().w_o), std::pair(0.0f, 1.0f));
  EXPECT_EQ(layer.parameters().w_o(0, 1), 10.0f);

  const Tensor<float, 3> x = [] {
    Tensor<float, 3> one({1, 1, 2});
    one(0, 0, 0) = 1;
    return one;
  }();
  const Tensor<float, 3> y = y_of(layer, {.x_q = x.view()});  // v = (4, 5), times c_proj
  EXPECT_EQ(y(0, 0, 0), 4.0f * 0 + 5.0f * 10);
  EXPECT_EQ(y(0, 0, 1), 4.0f * 1 + 5.0f * 11);
}

// query = einsum("bse,ehd->bshd"), y = einsum("bshd,hdn->bsn").
TEST(MultiHeadLayouts, KerasKernelsAreSplitByHead) {
  Random random(test::run_seed());
  const auto layer = test::random_layer<float>(
      {.d_model = 5, .num_heads = 3, .head_dim = 2, .head_dim_v = 4, .k_width = 6, .v_width = 7, .y_width = 3}, random);
  const NamedTensors<float> tensors = save_layout(AttentionLayout::keras, layer);
  EXPECT_EQ(tensors.size(), 8u);
  const MultiHeadParameters<float>& p = layer.parameters();
  const auto kernel = [&](const char* name, index_t a, index_t b, index_t c) {
    const NamedTensor<float>& t = tensors.at(name);
    return t.values[static_cast<std::size_t>((a * t.shape[1] + b) * t.shape[2] + c)];
  };
  EXPECT_EQ(tensors.at("query_dense/vars/0").shape, (std::vector<index_t>{5, 3, 2}));
  EXPECT_EQ(kernel("query_dense/vars/0", 4, 1, 0), p.w_q(1 * 2 + 0, 4));
  EXPECT_EQ(kernel("key_dense/vars/0", 5, 2, 1), p.w_k(2 * 2 + 1, 5));
  EXPECT_EQ(kernel("value_dense/vars/0", 6, 1, 3), p.w_v(1 * 4 + 3, 6));
  EXPECT_EQ(tensors.at("output_dense/vars/0").shape, (std::vector<index_t>{3, 4, 3}));
  EXPECT_EQ(kernel("output_dense/vars/0", 2, 1, 0), p.w_o(0, 2 * 4 + 1));
  EXPECT_EQ(tensors.at("value_dense/vars/1").shape, (std::vector<index_t>{3, 4}));
  EXPECT_EQ(tensors.at("value_dense/vars/1").values[5], p.b_v(5));
}

TEST(MultiHeadLayouts, TorchConfigurationIsInTheTensors) {
  Random random(test::run_seed());
  const auto config_of = [&](const MultiHeadConfig& from) {
    const auto layer = test::random_layer<float>(from, random);
    const NamedTensors<float> saved = save_layout(AttentionLayout::torch, layer);
    return torch_config(views_of(saved), from.num_heads);
  };
  const MultiHeadConfig packed = config_of({.d_model = 6, .num_heads = 2, .bias_kv = true});
  EXPECT_EQ(packed.d_model, 6);
  EXPECT_FALSE(packed.k_width.has_value());
  EXPECT_TRUE(packed.b_q && packed.b_k && packed.b_v && packed.b_o && packed.bias_kv);
  const MultiHeadConfig apart = config_of({.d_model = 8,
                                           .num_heads = 2,
                                           .k_width = 6,
                                           .v_width = 3,
                                           .b_q = false,
                                           .b_k = false,
                                           .b_v = false,
                                           .b_o = false});
  EXPECT_EQ(apart.k_width, 6);
  EXPECT_EQ(apart.v_width, 3);
  EXPECT_FALSE(apart.b_q || apart.b_k || apart.b_v || apart.b_o || apart.bias_kv);
  EXPECT_EQ(error_of<CheckpointError>([] { torch_config(NamedViews<float>{}, 2); }),
            "torch_config: every tensor of the layout must be there, got layout=torch, missing=out_proj.weight");
  const NamedViews<float> flat{{"out_proj.weight", {nullptr, {8}}}};
  EXPECT_EQ(error_of<CheckpointError>([&] { torch_config(flat, 2); }),
            "torch_config: a weight must have two axes, got tensor=out_proj.weight, shape=[8]");
}

// torch says True = hidden.
TEST(MultiHeadLayouts, TorchMasksAreTurnedAround) {
  bool hidden[12] = {};
  hidden[1] = hidden[6] = hidden[11] = true;
  const Tensor<bool, 2> plain = visible_from_torch_attn_mask(TensorView<const bool, 2>(hidden, {3, 4}));
  EXPECT_TRUE(plain(0, 0));
  EXPECT_FALSE(plain(0, 1) || plain(1, 2) || plain(2, 3));
  const Tensor<bool, 4> heads = visible_from_torch_attn_mask(TensorView<const bool, 3>(hidden, {6, 1, 2}), 3);
  EXPECT_EQ(heads.shape(), (std::array<index_t, 4>{2, 3, 1, 2}));
  EXPECT_FALSE(heads(0, 0, 0, 1) || heads(1, 0, 0, 0) || heads(1, 2, 0, 1));
  EXPECT_TRUE(heads(0, 1, 0, 0) && heads(1, 2, 0, 0));
  const Tensor<bool, 4> keys = visible_from_torch_key_padding_mask(TensorView<const bool, 2>(hidden, {3, 4}));
  EXPECT_EQ(keys.shape(), (std::array<index_t, 4>{3, 1, 1, 4}));
  EXPECT_FALSE(keys(1, 0, 0, 2));
  EXPECT_TRUE(keys(1, 0, 0, 3));
  EXPECT_EQ(error_of([&] {
              visible_from_torch_attn_mask(TensorView<const bool, 3>(hidden, {3, 2, 2}), 2);
            }),
            "visible_from_torch_attn_mask: num_heads must divide the mask's first axis, [B*H, Sq, Skv], got hidden=[3, "
            "2, 2], num_heads=2");
}

TEST(MultiHeadLayouts, RefusesTensorsInWords) {
  Random random(test::run_seed());
  const auto layer = test::random_layer<float>({.d_model = 6, .num_heads = 2}, random);
  const NamedTensors<float> saved = save_layout(AttentionLayout::torch, layer);
  const auto refused = [&](const NamedTensors<float>& tensors, AttentionLayout layout = AttentionLayout::torch) {
    MultiHeadAttention<float> target(layer.config());
    std::string text = error_of<CheckpointError>([&] { load_layout(layout, views_of(tensors), target); });
    target.parameters().for_each([&](const char*, const auto& p) {
      EXPECT_TRUE(std::all_of(p.data(), p.data() + p.size(), [](float x) { return x == 0; }));
    });
    return text;
  };
  NamedTensors<float> tensors = saved;
  tensors.erase("out_proj.bias");
  EXPECT_EQ(refused(tensors),
            "load_layout: every tensor of the layout must be there, got layout=torch, missing=out_proj.bias");
  tensors = saved;
  tensors["in_proj_weight"].shape = {6, 18};
  EXPECT_EQ(
      refused(tensors),
      "load_layout: a tensor must have the layout's shape, got layout=torch, tensor=in_proj_weight, shape=[6, 18], "
      "expected=[18, 6]");
  tensors = saved;
  tensors["bias_k"] = {{1, 1, 6}, std::vector<float>(6)};
  EXPECT_EQ(refused(tensors), "load_layout: every tensor must be one of the layout, got layout=torch, tensor=bias_k");
  EXPECT_EQ(refused(saved, AttentionLayout::gpt2),
            "load_layout: every tensor of the layout must be there, got layout=gpt2, missing=c_attn.weight");
}

TEST(MultiHeadLayouts, RefusesLayersInWords) {
  const auto refused = [](AttentionLayout layout, const MultiHeadConfig& config) {
    return error_of<UnsupportedError>([&] { save_layout(layout, MultiHeadAttention<float>(config)); });
  };
  EXPECT_EQ(refused(AttentionLayout::torch, {.d_model = 8, .num_heads = 4, .num_kv_heads = 2}),
            "save_layout: the layout has as many kv heads as heads, got layout=torch, num_heads=4, num_kv_heads=2");
  EXPECT_EQ(refused(AttentionLayout::torch, {.d_model = 8, .num_heads = 2, .head_dim_v = 3}),
            "save_layout: the layout has heads that fill d_model, got layout=torch, num_heads=2, head_dim=4, "
            "head_dim_v=3, y_width=8, d_model=8");
  EXPECT_EQ(refused(AttentionLayout::gpt2, {.d_model = 8, .num_heads = 2, .k_width = 3}),
            "save_layout: the layout has keys and values of d_model, got layout=gpt2, k_width=3, v_width=8, d_model=8");
  EXPECT_EQ(refused(AttentionLayout::torch, {.d_model = 8, .num_heads = 2, .b_k = false}),
            "save_layout: the layout has all biases or none, got layout=torch, biases=3");
  EXPECT_EQ(refused(AttentionLayout::gpt2_cross, {.d_model = 8, .num_heads = 2, .b_o = false}),
            "save_layout: the layout has all biases, got layout=gpt2_cross, biases=3");
  EXPECT_EQ(refused(AttentionLayout::torch, {.d_model = 8, .num_heads = 2, .q_norm = true}),
            "save_layout: the layout has no norms and no sinks, got layout=torch");
  EXPECT_EQ(refused(AttentionLayout::keras, {.d_model = 8, .num_heads = 2, .bias_kv = true}),
            "save_layout: the layout has no norms, no sinks and no bias_kv, got layout=keras");
  MultiHeadAttention<float> pruned({.d_model = 8, .num_heads = 2});
  pruned.remove_heads(std::vector<index_t>{1});
  EXPECT_EQ(error_of<UnsupportedError>([&] { save_layout(AttentionLayout::torch, pruned); }),
            "save_layout: the layout has heads that fill d_model, got layout=torch, num_heads=1, head_dim=4, "
            "head_dim_v=4, y_width=8, d_model=8; heads were removed");
}

}  // namespace
}  // namespace multihead::nn
