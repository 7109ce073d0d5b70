// MultiHeadAttention forward: against its definition, and the cases where other layers dropped a mask.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/layer_problem.hpp"
#include "tests/support/plain_layer.hpp"

namespace multihead::nn {
namespace {

using test::LayerCase;
using test::LayerProblem;
using test::PlainLayer;
using test::Random;
using test::random_tensor;
using test::y_of;

// |result - truth| <= 2 |plain - truth| + 4 ulp, where plain is what plain loops in the layer's type give.
template <class T>
void expect_near(const char* name, const T* result, const std::vector<T>& plain,
                 const std::vector<long double>& truth) {
  double error = 0, plain_error = 0, largest = 0;
  for (std::size_t n = 0; n < truth.size(); ++n) {
    error = std::max(error, static_cast<double>(std::abs(result[n] - truth[n])));
    plain_error = std::max(plain_error, static_cast<double>(std::abs(plain[n] - truth[n])));
    largest = std::max(largest, static_cast<double>(std::abs(truth[n])));
  }
  EXPECT_LE(error, 2 * plain_error + 4 * static_cast<double>(std::numeric_limits<T>::epsilon()) * largest) << name;
}

template <class T>
void expect_exact(const LayerProblem<T>& problem, const PlainLayer<long double>& truth, const PlainLayer<T>& plain) {
  const MultiHeadExtents& e = problem.layer.extents();
  Tensor<T, 3> y({problem.batch, problem.seqlen_q, e.y_width});
  Tensor<T, 4> heads({problem.batch, problem.seqlen_q, e.num_heads, e.head_dim_v});
  problem.layer.forward(problem.input(), {.y = y.view(), .heads = heads.view()}, problem.options());
  expect_near("heads", heads.data(), plain.heads.values, truth.heads.values);
  expect_near("y", y.data(), plain.y.values, truth.y.values);
}

class MultiHeadForward : public testing::TestWithParam<LayerCase> {};

TEST_P(MultiHeadForward, IsItsDefinition) {
  LayerProblem<double> wide(GetParam(), test::run_seed());
  LayerProblem<float> narrow(GetParam(), test::run_seed());
  // The same numbers, rounded to f32, for both.
  const auto round = [](auto& to, auto& from) {
    for (index_t n = 0; n < from.size(); ++n) from.data()[n] = to.data()[n] = static_cast<float>(from.data()[n]);
  };
  round(narrow.x_q, wide.x_q), round(narrow.x_k, wide.x_k), round(narrow.x_v, wide.x_v);
  round(narrow.gates, wide.gates), round(narrow.bias, wide.bias);
  MultiHeadParameters<float>& to = narrow.layer.parameters();
  MultiHeadParameters<double>& from = wide.layer.parameters();
  round(to.w_q, from.w_q), round(to.w_k, from.w_k), round(to.w_v, from.w_v), round(to.w_o, from.w_o);
  round(to.b_q, from.b_q), round(to.b_k, from.b_k), round(to.b_v, from.b_v), round(to.b_o, from.b_o);
  round(to.q_norm, from.q_norm), round(to.k_norm, from.k_norm), round(to.sinks, from.sinks);
  round(to.bias_k, from.bias_k), round(to.bias_v, from.bias_v);

  const PlainLayer<long double> truth = test::plain_layer<long double>(wide.layer, wide.input(), wide.options());
  expect_exact(narrow, truth, test::plain_layer<float>(narrow.layer, narrow.input(), narrow.options()));
  expect_exact(wide, truth, test::plain_layer<double>(wide.layer, wide.input(), wide.options()));
}

std::vector<LayerCase> cases_with_a_definition() {
  std::vector<LayerCase> cases = test::layer_cases();
  std::erase_if(cases, [](const LayerCase& c) { return c.packed || c.config.dropout > 0; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Layer, MultiHeadForward, testing::ValuesIn(cases_with_a_definition()),
                         [](const auto& param) { return param.param.name; });

// A layer of one head of width 1 whose queries and keys are 0 and whose values are its input.
MultiHeadAttention<float> plain_mean(double dropout = 0) {
  MultiHeadAttention<float> layer({.d_model = 1, .num_heads = 1, .dropout = dropout});
  layer.parameters().w_v(0, 0) = layer.parameters().w_o(0, 0) = 1;
  return layer;
}

// Attention case 12: causal must not depend on dropout being configured, on probabilities or on more batches.
TEST(MultiHeadCases, CausalHoldsOnEveryPath) {
  const Tensor<float, 3> x = [] {
    Tensor<float, 3> t({2, 3, 1});
    for (index_t b = 0; b < 2; ++b) t(b, 0, 0) = 1, t(b, 1, 0) = 2, t(b, 2, 0) = 4;
    return t;
  }();
  const TensorView<const float, 3> one = x.view().slice(0, 0, 1);
  MultiHeadOptions<float> options;
  for (const Causal causal : {Causal::top_left, Causal::bottom_right}) {
    options.attention.mask.causal = causal;
    const Tensor<float, 3> plain = y_of(plain_mean(), {.x_q = one}, options);
    EXPECT_EQ(plain(0, 0, 0), 1.0f);
    EXPECT_EQ(plain(0, 1, 0), 1.5f);
    EXPECT_FLOAT_EQ(plain(0, 2, 0), 7.0f / 3);
    const Tensor<float, 3> with_dropout = y_of(plain_mean(0.5), {.x_q = one}, options);
    const Tensor<float, 3> batch = y_of(plain_mean(), {.x_q = x.view()}, options);
    Tensor<float, 3> with_probs({1, 3, 1});
    Tensor<float, 4> probs({1, 1, 3, 3});
    plain_mean().forward({.x_q = one}, {.y = with_probs.view(), .probs = probs.view()}, options);
    for (index_t i = 0; i < 3; ++i) {
      EXPECT_EQ(plain(0, i, 0), with_dropout(0, i, 0));
      EXPECT_EQ(plain(0, i, 0), with_probs(0, i, 0));
      EXPECT_EQ(plain(0, i, 0), batch(0, i, 0));
      EXPECT_EQ(plain(0, i, 0), batch(1, i, 0));
      for (index_t j = 0; j < 3; ++j)
        EXPECT_FLOAT_EQ(probs(0, 0, i, j), j <= i ? 1.0f / static_cast<float>(i + 1) : 0.0f);
    }
  }
}

// Attention case 14: asking for probabilities changes nothing, and they are those of each head.
TEST(MultiHeadCases, ProbsAreOfEachHeadAndChangeNothing) {
  Random random(test::run_seed());
  auto layer = test::random_layer<float>({.d_model = 6, .num_heads = 2}, random);
  for (index_t d = 0; d < 3; ++d) {  // head 0 sees all scores equal
    layer.parameters().b_q(d) = 0;
    for (index_t m = 0; m < 6; ++m) layer.parameters().w_q(d, m) = 0;
  }
  const Tensor<float, 3> x = random_tensor<float, 3>(random, {1, 3, 6});
  MultiHeadOptions<float> options;
  options.attention.mask.causal = Causal::top_left;
  const Tensor<float, 3> without = y_of(layer, {.x_q = x.view()}, options);
  Tensor<float, 3> with({1, 3, 6}), lse({1, 2, 3});
  Tensor<float, 4> probs({1, 2, 3, 3});
  layer.forward({.x_q = x.view()}, {.y = with.view(), .probs = probs.view(), .lse = lse.view()}, options);
  for (index_t n = 0; n < with.size(); ++n) EXPECT_EQ(with.data()[n], without.data()[n]);
  for (index_t i = 0; i < 3; ++i) {
    for (index_t j = 0; j < 3; ++j)
      EXPECT_FLOAT_EQ(probs(0, 0, i, j), j <= i ? 1.0f / static_cast<float>(i + 1) : 0.0f);
    EXPECT_FLOAT_EQ(lse(0, 0, i), static_cast<float>(std::log(static_cast<double>(i + 1))));
  }
  EXPECT_GT(std::abs(probs(0, 1, 2, 0) - 1.0f / 3), 1e-4f);
}

// Attention case 32: outside training dropout does nothing, bit for bit; in training it does.
TEST(MultiHeadCases, DropoutIsForTraining) {
  Random random(test::run_seed());
  const MultiHeadConfig config{.d_model = 8, .num_heads = 2, .dropout = 0.5};
  const auto layer = test::random_layer<float>(config, random);
  MultiHeadConfig sober = config;
  sober.dropout = 0;
  MultiHeadAttention<float> same(sober);
  same.parameters().w_q = layer.parameters().w_q.clone(), same.parameters().b_q = layer.parameters().b_q.clone();
  same.parameters().w_k = layer.parameters().w_k.clone(), same.parameters().b_k = layer.parameters().b_k.clone();
  same.parameters().w_v = layer.parameters().w_v.clone(), same.parameters().b_v = layer.parameters().b_v.clone();
  same.parameters().w_o = layer.parameters().w_o.clone(), same.parameters().b_o = layer.parameters().b_o.clone();
  const Tensor<float, 3> x = random_tensor<float, 3>(random, {2, 5, 8});
  const Tensor<float, 3> first = y_of(layer, {.x_q = x.view()}), second = y_of(layer, {.x_q = x.view()});
  const Tensor<float, 3> expected = y_of(same, {.x_q = x.view()});
  MultiHeadOptions<float> training{.training = true};
  training.attention.dropout.seed = 3;
  const Tensor<float, 3> dropped = y_of(layer, {.x_q = x.view()}, training);
  const Tensor<float, 3> again = y_of(layer, {.x_q = x.view()}, training);
  const Tensor<float, 3> nothing_to_drop = y_of(same, {.x_q = x.view()}, training);
  bool differs = false;
  for (index_t n = 0; n < x.size(); ++n) {
    EXPECT_EQ(first.data()[n], expected.data()[n]);
    EXPECT_EQ(second.data()[n], expected.data()[n]);
    EXPECT_EQ(nothing_to_drop.data()[n], expected.data()[n]);
    EXPECT_EQ(dropped.data()[n], again.data()[n]);
    differs = differs || dropped.data()[n] != first.data()[n];
  }
  EXPECT_TRUE(differs);
}

// Attention case 37: key and value widths of their own.
TEST(MultiHeadCases, KeyAndValueWidthsMayDiffer) {
  Random random(test::run_seed());
  const auto layer = test::random_layer<float>({.d_model = 8, .num_heads = 2, .k_width = 6, .v_width = 3}, random);
  EXPECT_EQ(layer.parameters().w_q.shape(), (std::array<index_t, 2>{8, 8}));
  EXPECT_EQ(layer.parameters().w_k.shape(), (std::array<index_t, 2>{8, 6}));
  EXPECT_EQ(layer.parameters().w_v.shape(), (std::array<index_t, 2>{8, 3}));
  const auto x_q = random_tensor<float, 3>(random, {2, 4, 8}), x_k = random_tensor<float, 3>(random, {2, 5, 6}),
             x_v = random_tensor<float, 3>(random, {2, 5, 3});
  Tensor<float, 3> y({2, 4, 8});
  Tensor<float, 4> probs({2, 2, 4, 5});
  layer.forward({x_q.view(), x_k.view(), x_v.view()}, {.y = y.view(), .probs = probs.view()});

  // Projected by hand first, by a layer whose own projections of k and v are the identity.
  MultiHeadAttention<float> by_hand({.d_model = 8, .num_heads = 2});
  by_hand.parameters().w_q = layer.parameters().w_q.clone(), by_hand.parameters().b_q = layer.parameters().b_q.clone();
  by_hand.parameters().w_o = layer.parameters().w_o.clone(), by_hand.parameters().b_o = layer.parameters().b_o.clone();
  for (index_t n = 0; n < 8; ++n) by_hand.parameters().w_k(n, n) = by_hand.parameters().w_v(n, n) = 1;
  const auto project = [](const Tensor<float, 3>& x, const Tensor<float, 2>& w, const Tensor<float, 1>& b) {
    const auto plain = test::plain_projection(reference::read<float, 3>(x.view()), w, b);
    Tensor<float, 3> result({x.shape(0), x.shape(1), w.shape(0)});
    std::copy(plain.values.begin(), plain.values.end(), result.data());
    return result;
  };
  const Tensor<float, 3> k = project(x_k, layer.parameters().w_k, layer.parameters().b_k);
  const Tensor<float, 3> v = project(x_v, layer.parameters().w_v, layer.parameters().b_v);
  const Tensor<float, 3> expected = y_of(by_hand, {x_q.view(), k.view(), v.view()});
  for (index_t n = 0; n < y.size(); ++n) EXPECT_NEAR(y.data()[n], expected.data()[n], 1e-5f);
}

// What head h reads is attention over its own slices of the weights; what it writes is its columns of w_o.
TEST(MultiHeadCases, HeadViewsAreTheHeads) {
  Random random(test::run_seed());
  auto layer = test::random_layer<double>(
      {.d_model = 10, .num_heads = 4, .num_kv_heads = 2, .head_dim = 3, .head_dim_v = 2, .k_width = 6, .v_width = 5},
      random);
  const auto x_q = random_tensor<double, 3>(random, {1, 3, 10}), x_k = random_tensor<double, 3>(random, {1, 4, 6}),
             x_v = random_tensor<double, 3>(random, {1, 4, 5});
  const MultiHeadInput<double> input{x_q.view(), x_k.view(), x_v.view()};
  Tensor<double, 3> y({1, 3, 10});
  Tensor<double, 4> heads({1, 3, 4, 2}), probs({1, 4, 3, 4});
  layer.forward(input, {.y = y.view(), .heads = heads.view(), .probs = probs.view()});
  Tensor<double, 3> sum({1, 3, 10});
  for (index_t i = 0; i < 3; ++i) {
    for (index_t n = 0; n < 10; ++n) sum(0, i, n) = layer.parameters().b_o(n);
  }
  for (index_t h = 0; h < 4; ++h) {
    const HeadView<double> head = layer.head(h);
    EXPECT_EQ(head.original_head, h);
    EXPECT_EQ(head.original_kv_head, h / 2);
    for (index_t i = 0; i < 3; ++i) {
      for (index_t d = 0; d < 2; ++d) {
        double read = 0;
        for (index_t j = 0; j < 4; ++j) {
          double value = head.b_v(d);
          for (index_t m = 0; m < 5; ++m) value += head.w_v(d, m) * x_v(0, j, m);
          read += probs(0, h, i, j) * value;
        }
        EXPECT_NEAR(heads(0, i, h, d), read, 1e-13);
        for (index_t n = 0; n < 10; ++n) sum(0, i, n) += head.w_o(n, d) * heads(0, i, h, d);
      }
    }
  }
  for (index_t h = 0; h < 4; ++h) {  // the views are of the layer itself
    const HeadView<double> head = layer.head(h);
    head.w_q(2, 9) = head.w_k(2, 5) = head.w_v(1, 4) = static_cast<double>(h);
    EXPECT_EQ(layer.parameters().w_q(h * 3 + 2, 9), static_cast<double>(h));
    EXPECT_EQ(layer.parameters().w_k(h / 2 * 3 + 2, 5), static_cast<double>(h));
    EXPECT_EQ(layer.parameters().w_v(h / 2 * 2 + 1, 4), static_cast<double>(h));
  }
  for (index_t n = 0; n < y.size(); ++n) EXPECT_NEAR(y.data()[n], sum.data()[n], 1e-13);
}

// A batch of any strides gives the bits of its sequences one by one, with any threads.
TEST(MultiHeadCases, BatchesStridesAndThreadsChangeNoBit) {
  Random random(test::run_seed());
  const auto layer = test::random_layer<float>(
      {.d_model = 24, .num_heads = 3, .q_norm = true, .rope = RopeConfig{}, .bias_kv = true}, random);
  const Tensor<float, 3> x = random_tensor<float, 3>(random, {37, 2, 24});  // tokens first
  const TensorView<const float, 3> batch = x.view().permute({1, 0, 2});
  Threads threads(3);
  MultiHeadOptions<float> options;
  options.attention.threads = &threads;
  const Tensor<float, 3> y = y_of(layer, {.x_q = batch}, options);
  for (index_t b = 0; b < 2; ++b) {
    Tensor<float, 3> one({1, 37, 24});
    for (index_t i = 0; i < 37; ++i) std::copy_n(&x(i, b, 0), 24, &one(0, i, 0));
    const Tensor<float, 3> alone = y_of(layer, {.x_q = one.view()});
    for (index_t n = 0; n < alone.size(); ++n) ASSERT_EQ(alone.data()[n], y.data()[b * alone.size() + n]);
  }
}

// Packed sequences are what each of them is alone, positions and dropout included, bit for bit.
TEST(MultiHeadCases, PackedSequencesAreThemselves) {
  Random random(test::run_seed());
  const auto layer = test::random_layer<float>(
      {.d_model = 8, .num_heads = 2, .rope = RopeConfig{}, .dropout = 0.3, .bias_kv = true}, random);
  const index_t cu_q[4] = {0, 3, 3, 7}, cu_kv[4] = {0, 2, 5, 11}, ids[3] = {5, 6, 7};
  const auto x_q = random_tensor<float, 3>(random, {1, 7, 8}), x_kv = random_tensor<float, 3>(random, {1, 11, 8});
  MultiHeadOptions<float> options{.training = true};
  options.attention.mask.causal = Causal::bottom_right;
  options.attention.dropout = {.seed = 9, .sequence_ids = {ids, {3}}};
  options.attention.packed = {{cu_q, {4}}, {cu_kv, {4}}};
  const Tensor<float, 3> packed = y_of(layer, {.x_q = x_q.view(), .x_k = x_kv.view()}, options);
  options.attention.packed = {};
  for (const index_t s : {0, 1, 2}) {
    options.attention.dropout.sequence_ids = {ids + s, {1}};
    const Tensor<float, 3> alone = y_of<float>(
        layer, {.x_q = x_q.view().slice(1, cu_q[s], cu_q[s + 1]), .x_k = x_kv.view().slice(1, cu_kv[s], cu_kv[s + 1])},
        options);
    for (index_t n = 0; n < alone.size(); ++n) EXPECT_EQ(alone.data()[n], packed.data()[cu_q[s] * 8 + n]) << s;
  }
}

}  // namespace
}  // namespace multihead::nn
