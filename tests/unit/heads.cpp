// What single heads add to y, and tensors of the designed heads for a layer that has lost some.
#include "multihead/nn/heads.hpp"

#include <gtest/gtest.h>

#include "tests/support/error_text.hpp"
#include "tests/support/layer_problem.hpp"

namespace multihead::nn {
namespace {

using test::error_of;
using test::Random;
using test::random_tensor;

constexpr index_t kBatch = 2, kSeqlen = 5;

template <class T>
void expect_contributions_sum_to_y(const MultiHeadConfig& config, const std::vector<index_t>& removed, bool gated) {
  Random random(test::run_seed());
  auto layer = test::random_layer<T>(config, random);
  layer.remove_heads(removed);
  const MultiHeadExtents& e = layer.extents();
  const auto x = random_tensor<T, 3>(random, {kBatch, kSeqlen, e.d_model});
  const auto gates = random_tensor<T, 1>(random, {e.num_heads});
  Tensor<T, 3> y({kBatch, kSeqlen, e.y_width});
  Tensor<T, 4> heads({kBatch, kSeqlen, e.num_heads, e.head_dim_v});
  MultiHeadOptions<T> options;
  if (gated) options.gates = gates;
  layer.forward({.x_q = x}, {.y = y, .heads = heads}, options);
  const Tensor<T, 4> all = head_contributions(layer, heads, options.gates);
  ASSERT_EQ(all.shape(), (std::array{kBatch, kSeqlen, e.num_heads, e.y_width}));
  for (index_t b = 0; b < kBatch; ++b) {
    for (index_t i = 0; i < kSeqlen; ++i) {
      for (index_t c = 0; c < e.y_width; ++c) {
        double sum = config.b_o ? static_cast<double>(layer.parameters().b_o(c)) : 0.0;
        for (index_t h = 0; h < e.num_heads; ++h) sum += static_cast<double>(all(b, i, h, c));
        ASSERT_NEAR(static_cast<double>(y(b, i, c)), sum, sizeof(T) == 8 ? 1e-12 : 1e-4);
      }
    }
  }
  const std::vector<index_t> chosen{e.num_heads - 1, 0};
  const Tensor<T, 4> two = head_contributions(layer, heads, options.gates, chosen);
  ASSERT_EQ(two.shape(2), 2);
  for (index_t i = 0; i < kSeqlen; ++i) {
    for (index_t c = 0; c < e.y_width; ++c) {
      EXPECT_EQ(two(1, i, 0, c), all(1, i, e.num_heads - 1, c));
      EXPECT_EQ(two(1, i, 1, c), all(1, i, 0, c));
    }
  }
}

TEST(HeadContributions, SumToY) {
  const MultiHeadConfig grouped{
      .d_model = 12, .num_heads = 4, .num_kv_heads = 2, .head_dim = 3, .head_dim_v = 5, .y_width = 7};
  const MultiHeadConfig no_bias{.d_model = 12, .num_heads = 3, .b_o = false};
  for (const bool gated : {false, true}) {
    expect_contributions_sum_to_y<float>(grouped, {}, gated);
    expect_contributions_sum_to_y<double>(grouped, {1}, gated);
    expect_contributions_sum_to_y<float>(no_bias, {0}, gated);
  }
}

TEST(HeadContributions, Errors) {
  MultiHeadAttention<float> layer({.d_model = 12, .num_heads = 4});
  layer.remove_heads(std::vector<index_t>{1});
  const Tensor<float, 4> heads({2, 5, 3, 3}), wrong({2, 5, 4, 3});
  const std::vector<index_t> three{3}, below{-1};
  const std::vector<float> gates(4, 1.0f);
  EXPECT_EQ(error_of([&] { head_contributions(layer, wrong); }),
            "head_contributions: heads must be [B, Sq, H, Dv], got heads=[2, 5, 4, 3], num_heads=3, head_dim_v=3");
  EXPECT_EQ(error_of([&] { head_contributions(layer, {}); }),
            "head_contributions: heads must be [B, Sq, H, Dv], got heads=absent, num_heads=3, head_dim_v=3");
  EXPECT_EQ(error_of([&] { head_contributions(layer, heads, gates); }),
            "head_contributions: gates must have one entry for each head that remains, got gates=4, num_heads=3");
  EXPECT_EQ(error_of([&] { head_contributions(layer, heads, {}, three); }),
            "head_contributions: selected must name heads in [0, num_heads), got selected=3, num_heads=3");
  EXPECT_EQ(error_of([&] { head_contributions(layer, heads, {}, below); }),
            "head_contributions: selected must name heads in [0, num_heads), got selected=-1, num_heads=3");
}

// A layer that lost heads, given what was made for all of them, equals the whole layer with gates of 0 there.
TEST(RemainingHeads, ArgumentsOfTheDesignedHeadsFit) {
  Random random(test::run_seed());
  const MultiHeadConfig config{.d_model = 24, .num_heads = 6, .num_kv_heads = 3};
  auto layer = test::random_layer<float>(config, random);
  const auto x = random_tensor<float, 3>(random, {kBatch, kSeqlen, 24});
  auto gates = random_tensor<float, 1>(random, {6});
  const auto slopes = random_tensor<float, 1>(random, {6});
  const auto bias = random_tensor<float, 4>(random, {kBatch, 6, kSeqlen, kSeqlen});
  const auto of_keys = random_tensor<float, 3>(random, {1, 1, kSeqlen});
  Tensor<bool, 3> visible({6, kSeqlen, kSeqlen});
  for (index_t n = 0; n < visible.size(); ++n) visible.data()[n] = n % 3 != 1;
  for (const index_t h : {1, 2, 5}) gates(h) = 0;
  Tensor<float, 3> expected({kBatch, kSeqlen, 24}), y({kBatch, kSeqlen, 24});
  layer.forward({.x_q = x}, {.y = expected},
                {.attention = {.bias = bias, .alibi_slopes = slopes, .mask = {.visible = visible}}, .gates = gates});

  layer.remove_heads(std::vector<index_t>{1, 2, 5});
  const auto bias_left = remaining_heads(layer, bias, 1);
  const auto slopes_left = remaining_heads(layer, slopes, 0);
  const auto gates_left = remaining_heads(layer, gates, 0);
  const auto visible_left = remaining_heads(layer, visible, 0);
  ASSERT_EQ(bias_left.shape(), (std::array<index_t, 4>{kBatch, 3, kSeqlen, kSeqlen}));
  layer.forward({.x_q = x}, {.y = y},
                {.attention = {.bias = bias_left, .alibi_slopes = slopes_left, .mask = {.visible = visible_left}},
                 .gates = gates_left});
  for (index_t n = 0; n < y.size(); ++n) ASSERT_NEAR(y.data()[n], expected.data()[n], 1e-4);

  const auto shared = remaining_heads(layer, of_keys, 0);  // one for all heads
  ASSERT_EQ(shared.shape(), of_keys.shape());
  EXPECT_EQ(shared(0, 0, 3), of_keys(0, 0, 3));
  const auto turned = remaining_heads(layer, bias.view().permute({0, 3, 2, 1}), 3);  // any strides, any axis
  EXPECT_EQ(turned(1, 4, 2, 2), bias(1, 4, 2, 4));
  EXPECT_EQ(error_of([&] { remaining_heads(layer, bias, 2); }),
            "remaining_heads: the axis must have an entry for each designed head, or one, got extent=5, num_heads=6");
  const volatile int no_axis = 1;  // g++ warns of the constant
  EXPECT_EQ(error_of([&] { remaining_heads(layer, slopes, no_axis); }),
            "remaining_heads: head_axis must be one of the tensor, got head_axis=1, shape=[6]");
  layer.remove_heads(std::vector<index_t>{0, 3, 4}, RemoveAll::allow);
  EXPECT_EQ(remaining_heads(layer, slopes, 0).shape(0), 0);
}

}  // namespace
}  // namespace multihead::nn
