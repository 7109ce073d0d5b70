// What MultiHeadAttention refuses, in whole sentences, and that nothing was written by then.
#include <gtest/gtest.h>

#include "tests/support/error_text.hpp"
#include "tests/support/layer_problem.hpp"

namespace multihead::nn {
namespace {

using test::error_of;

std::string made(const MultiHeadConfig& config) {
  return error_of([&] { MultiHeadAttention<float> layer(config); });
}

TEST(MultiHeadErrors, Configuration) {
  EXPECT_EQ(made({.d_model = 512, .num_heads = 7}),
            "MultiHeadAttention: num_heads must divide d_model, got d_model=512, num_heads=7; or give head_dim");
  EXPECT_EQ(made({.d_model = 512, .num_heads = 12, .num_kv_heads = 5}),
            "MultiHeadAttention: num_heads must be a multiple of num_kv_heads, got num_heads=12, num_kv_heads=5");
  EXPECT_EQ(made({.d_model = 0, .num_heads = 1}),
            "MultiHeadAttention: d_model, num_heads and num_kv_heads must be above 0, got d_model=0, num_heads=1, "
            "num_kv_heads=1");
  EXPECT_EQ(made({.d_model = 8, .num_heads = 2, .head_dim_v = 0}),
            "MultiHeadAttention: all widths must be above 0, got head_dim=4, head_dim_v=0, k_width=8, v_width=8, "
            "y_width=8");
  EXPECT_EQ(made({.d_model = 8, .num_heads = 2, .dropout = 1.5}),
            "MultiHeadAttention: dropout must be in [0, 1], got dropout=1.5");
  EXPECT_EQ(made({.d_model = 8, .num_heads = 2, .zero_attn = true, .sinks = true}),
            "MultiHeadAttention: sinks and zero_attn must not go together; zero_attn is a sink of logit 0");
  EXPECT_EQ(made({.d_model = 6, .num_heads = 2, .rope = RopeConfig{}}),
            "Rope: rotary_dim must be even and in [2, head_dim], got rotary_dim=3, head_dim=3");
}

struct Case {
  MultiHeadAttention<float> layer{{.d_model = 8, .num_heads = 2, .k_width = 6, .v_width = 3, .dropout = 0.25}};
  Tensor<float, 3> x_q{{2, 4, 8}}, x_k{{2, 5, 6}}, x_v{{2, 5, 3}}, y{{2, 4, 8}};

  std::string forward(const MultiHeadInput<float>& input, const MultiHeadOptions<float>& options = {}) {
    return forward(input, {.y = y.view()}, options);
  }
  std::string forward(const MultiHeadInput<float>& input, const MultiHeadOutput<float>& output,
                      const MultiHeadOptions<float>& options = {}) {
    std::fill_n(y.data(), y.size(), 9.0f);
    std::string text = error_of([&] { layer.forward(input, output, options); });
    for (index_t n = 0; n < y.size(); ++n) EXPECT_EQ(y.data()[n], 9.0f);
    return text;
  }
  MultiHeadInput<float> input() const { return {x_q.view(), x_k.view(), x_v.view()}; }
};

TEST(MultiHeadErrors, Widths) {
  Case c;
  EXPECT_EQ(c.forward({}), "MultiHeadAttention::forward: x_q must be given");
  EXPECT_EQ(c.forward({.x_q = c.x_k.view()}),
            "MultiHeadAttention::forward: x_q's last axis must be d_model, got x_q=[2, 5, 6], d_model=8");
  EXPECT_EQ(c.forward({.x_q = c.x_q.view()}),
            "MultiHeadAttention::forward: x_k's last axis must be k_width, got x_k=[2, 4, 8], k_width=6; x_k is x_q "
            "where it is not given");
  EXPECT_EQ(c.forward({c.x_q.view(), c.x_k.view(), {}}),
            "MultiHeadAttention::forward: x_v's last axis must be v_width, got x_v=[2, 5, 6], v_width=3; x_v is x_k "
            "where it is not given");
  EXPECT_EQ(c.forward({c.x_q.view(), c.x_k.view(), c.x_v.view().slice(1, 0, 4)}),
            "MultiHeadAttention::forward: x_k and x_v must have one batch and one seqlen_kv, got x_k=[2, 5, 6], "
            "x_v=[2, 4, 3]");
  EXPECT_EQ(c.forward({c.x_q.view().slice(0, 0, 1), c.x_k.view(), c.x_v.view()}),
            "MultiHeadAttention::forward: x_q and x_k must have one batch, got x_q=[1, 4, 8], x_k=[2, 5, 6]");
}

TEST(MultiHeadErrors, Outputs) {
  Case c;
  Tensor<float, 4> heads({2, 4, 2, 3});
  Tensor<float, 3> lse({2, 4, 2});
  EXPECT_EQ(c.forward(c.input(), MultiHeadOutput<float>{}), "MultiHeadAttention::forward: y must be given");
  EXPECT_EQ(c.forward(c.input(), {.y = c.y.view().slice(1, 0, 3)}),
            "MultiHeadAttention::forward: y must be [batch, seqlen_q, y_width], got y=[2, 3, 8], expected=[2, 4, 8]");
  Tensor<float, 3> columns({2, 8, 4});
  EXPECT_EQ(c.forward(c.input(), {.y = columns.view().permute({0, 2, 1})}),
            "MultiHeadAttention::forward: y's last axis must be contiguous, got stride=4");
  EXPECT_EQ(
      c.forward(c.input(), {.y = c.y.view(), .heads = heads.view()}),
      "MultiHeadAttention::forward: heads must be [batch, seqlen_q, num_heads, head_dim_v], got heads=[2, 4, 2, 3], "
      "expected=[2, 4, 2, 4]");
  EXPECT_EQ(c.forward(c.input(), {.y = c.y.view(), .lse = lse.view()}),
            "MultiHeadAttention::forward: lse must be [batch, num_heads, seqlen_q], got lse=[2, 4, 2], expected=[2, 2, "
            "4]");
}

TEST(MultiHeadErrors, Options) {
  Case c;
  const index_t numbers[8] = {};
  const float logits[2] = {};
  MultiHeadOptions<float> o;
  o.attention.dropout.probability = 0.5;
  EXPECT_EQ(c.forward(c.input(), o),
            "MultiHeadAttention::forward: the dropout probability must be left to the layer, got "
            "attention.dropout.probability=0.5, config.dropout=0.25; set training, and dropout.seed");
  o = {};
  o.attention.kv_head_of = {numbers, {2}};
  EXPECT_EQ(c.forward(c.input(), o), "MultiHeadAttention::forward: kv_head_of must be left to the layer");
  o = {};
  o.attention.page_table = {numbers, {2, 1}};
  EXPECT_EQ(c.forward(c.input(), o), "MultiHeadAttention::forward: page_table must be left to the layer; give a cache");
  o = {.gates = {logits, {1}}};
  EXPECT_EQ(c.forward(c.input(), o),
            "MultiHeadAttention::forward: gates must be [num_heads], got gates=[1], expected=[2]");
  o = {.positions_q = {numbers, {2, 4}}};
  EXPECT_EQ(c.forward(c.input(), o), "MultiHeadAttention::forward: positions must go with a layer that has rope");
  o = {};
  o.attention.softcap = 0;
  EXPECT_EQ(c.forward(c.input(), o),
            "attention_forward: softcap must be positive and finite, got softcap=0; leave it unset to turn it off");

  const Tensor<float, 3> x({1, 3, 4});
  Tensor<float, 3> y({1, 3, 4});
  const auto refused = [&](const MultiHeadConfig& config, const MultiHeadOptions<float>& options) {
    return error_of([&] { MultiHeadAttention<float>(config).forward({.x_q = x.view()}, {.y = y.view()}, options); });
  };
  o = {};
  o.attention.sinks = TensorView<const float, 1>(logits, {2});
  for (const bool zero_attn : {false, true}) {
    EXPECT_EQ(refused({.d_model = 4, .num_heads = 2, .zero_attn = zero_attn, .sinks = !zero_attn}, o),
              "MultiHeadAttention::forward: sinks must not be given to a layer with sinks or zero_attn of its own");
  }
  const MultiHeadConfig rotary{.d_model = 4, .num_heads = 2, .rope = RopeConfig{}};
  EXPECT_EQ(
      refused(rotary, {.positions_q = {numbers, {1, 2}}}),
      "MultiHeadAttention::forward: positions_q must be [batch, seqlen_q], got positions_q=[1, 2], expected=[1, 3]");
  EXPECT_EQ(refused(rotary, {.positions_k = {numbers, {2, 3}}}),
            "MultiHeadAttention::forward: positions_k must be [batch, seqlen_kv], got positions_k=[2, 3], expected=[1, "
            "3]");
}

TEST(MultiHeadErrors, Backward) {
  Case c;
  MultiHeadActivations<float> activations;
  c.layer.forward(c.input(), {.y = c.y.view()}, {}, &activations);
  Tensor<float, 3> dx_q({2, 4, 8}), dx_k({2, 5, 6});
  const auto backward = [&](const MultiHeadInput<float>& input, TensorView<const float, 3> dy,
                            const MultiHeadGradients<float>& gradients, const MultiHeadOptions<float>& options = {}) {
    return error_of([&] { c.layer.backward(input, activations, dy, gradients, options); });
  };
  const TensorView<const float, 3> dy = c.y.view();
  EXPECT_EQ(backward(c.input(), {}, {}), "MultiHeadAttention::backward: dy must be given");
  EXPECT_EQ(
      backward(c.input(), dy.slice(0, 0, 1), {}),
      "MultiHeadAttention::backward: dy must be [batch, seqlen_q, y_width], got dy=[1, 4, 8], expected=[2, 4, 8]");
  EXPECT_EQ(
      backward({c.x_q.view().slice(1, 0, 3), c.x_k.view(), c.x_v.view()}, dy, {}),
      "MultiHeadAttention::backward: activations must be those of forward on this input, got activations.q=[2, 4, "
      "2, 4], expected=[2, 3, 2, 4]");
  EXPECT_EQ(
      backward({c.x_q.view(), c.x_k.view().slice(1, 0, 3), c.x_v.view().slice(1, 0, 3)}, dy, {}),
      "MultiHeadAttention::backward: activations must be those of forward on this input, got activations.k=[2, 5, "
      "2, 4], expected=[2, 3, 2, 4]");
  EXPECT_EQ(backward(c.input(), dy, {.dx_q = dx_q.view().slice(1, 0, 2)}),
            "MultiHeadAttention::backward: dx_q must have the shape of x_q, got dx_q=[2, 2, 8], expected=[2, 4, 8]");
  EXPECT_EQ(backward(c.input(), dy, {.dx_k = dx_q.view()}),
            "MultiHeadAttention::backward: dx_k must have the shape of x_k, got dx_k=[2, 4, 8], expected=[2, 5, 6]");
  EXPECT_EQ(backward(c.input(), dy, {.dx_v = dx_k.view()}),
            "MultiHeadAttention::backward: dx_v must have the shape of x_v, got dx_v=[2, 5, 6], expected=[2, 5, 3]");
  Tensor<float, 2> dgates({1, 2});
  EXPECT_EQ(backward(c.input(), dy, {.dgates = dgates.view()}),
            "MultiHeadAttention::backward: dgates must be [sequences, num_heads], got dgates=[1, 2], expected=[2, 2]");
  MultiHeadParameters<float> other =
      MultiHeadAttention<float>({.d_model = 8, .num_heads = 2, .k_width = 5, .v_width = 3}).zero_gradients();
  EXPECT_EQ(backward(c.input(), dy, {.parameters = &other}),
            "MultiHeadAttention::backward: parameter gradients must have the shapes of the parameters, got "
            "parameter=w_k, shape=[8, 6], gradient=[8, 5]; zero_gradients() makes them");
  KvCache cache = KvCache::contiguous({2, 2, 4, 4}, 8);
  EXPECT_EQ(error_of<UnsupportedError>([&] { c.layer.backward(c.input(), activations, dy, {}, {.cache = &cache}); }),
            "MultiHeadAttention::backward: a cache must not be given; gradients need all tokens");

  MultiHeadAttention<float> own({.d_model = 8, .num_heads = 2});
  own.forward({.x_q = c.x_q.view()}, {.y = c.y.view()}, {}, &activations);
  const auto of_self = [&](const MultiHeadInput<float>& input, const MultiHeadGradients<float>& gradients) {
    return error_of([&] { own.backward(input, activations, dy, gradients); });
  };
  EXPECT_EQ(of_self({.x_q = c.x_q.view()}, {.dx_k = dx_q.view()}),
            "MultiHeadAttention::backward: dx_k must go with x_k; without x_k it is part of dx_q");
  EXPECT_EQ(of_self({.x_q = c.x_q.view(), .x_k = c.x_q.view()}, {.dx_v = dx_q.view()}),
            "MultiHeadAttention::backward: dx_v must go with x_v; without x_v it is part of dx_k");
  Tensor<float, 3> columns({2, 8, 4});
  EXPECT_EQ(of_self({.x_q = c.x_q.view()}, {.dx_q = columns.view().permute({0, 2, 1})}),
            "MultiHeadAttention::backward: dx_q's last axis must be contiguous, got stride=4");
}

}  // namespace
}  // namespace multihead::nn
