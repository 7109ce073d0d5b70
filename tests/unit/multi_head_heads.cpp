// Removing heads: by their original numbers, once; what remains computes what gates of 0 would have left.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "tests/support/error_text.hpp"
#include "tests/support/layer_problem.hpp"

namespace multihead::nn {
namespace {

using test::error_of;
using test::Random;
using test::random_tensor;
using test::y_of;
using Numbers = std::vector<index_t>;

// A layer as a file would give it back: configuration, remaining heads, parameters.
template <class T>
MultiHeadAttention<T> saved_and_loaded(const MultiHeadAttention<T>& layer) {
  MultiHeadAttention<T> loaded(layer.config(), layer.heads());
  std::vector<const T*> values;
  layer.parameters().for_each([&](const char*, const auto& p) { values.push_back(p.data()); });
  std::size_t at = 0;
  loaded.parameters().for_each([&](const char*, auto& p) { std::copy_n(values[at++], p.size(), p.data()); });
  return loaded;
}

// The same bits, for as long as the parameters are those that were packed.
TEST(MultiHeadHeads, PackedWeightsGiveTheSameBits) {
  Random random(test::run_seed());
  auto layer = test::random_layer<float>({.d_model = 24, .num_heads = 4, .num_kv_heads = 2, .head_dim = 7}, random);
  const auto x = random_tensor<float, 3>(random, {2, 5, 24});
  const auto expect_packed_equals = [&](const Tensor<float, 3>& expected) {
    EXPECT_TRUE(layer.packed_weights().w_q && layer.packed_weights().w_o);
    const Tensor<float, 3> y = y_of(layer, {.x_q = x});
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), sizeof(float) * static_cast<std::size_t>(y.size())), 0);
  };
  const Tensor<float, 3> before = y_of(layer, {.x_q = x});
  layer.pack_weights();
  expect_packed_equals(before);

  layer.parameters().w_v(0, 0) += 1;
  EXPECT_FALSE(layer.packed_weights().w_v) << "what was packed is not what it was";
  const Tensor<float, 3> changed = y_of(layer, {.x_q = x});
  EXPECT_NE(changed(0, 0, 0), before(0, 0, 0));
  layer.pack_weights();
  expect_packed_equals(changed);

  layer.head(1).w_q(0, 0) += 1;
  EXPECT_FALSE(layer.packed_weights().w_q);
  layer.pack_weights();
  layer.remove_heads(Numbers{1, 2});
  EXPECT_FALSE(layer.packed_weights().w_o);
  const Tensor<float, 3> fewer = y_of(layer, {.x_q = x});
  layer.pack_weights();
  expect_packed_equals(fewer);
  layer.initialize(3);
  EXPECT_FALSE(layer.packed_weights().w_k);
  layer.remove_heads(Numbers{0, 3}, RemoveAll::allow);
  const Tensor<float, 3> none = y_of(layer, {.x_q = x});
  layer.pack_weights();
  const Tensor<float, 3> still_none = y_of(layer, {.x_q = x});
  EXPECT_EQ(std::memcmp(none.data(), still_none.data(), sizeof(float) * static_cast<std::size_t>(none.size())), 0);
}

// Attention case 58.
TEST(MultiHeadHeads, NumbersStayThoseOfTheDesign) {
  Random random(test::run_seed());
  const auto full = test::random_layer<double>({.d_model = 8, .num_heads = 4}, random);
  const auto x = random_tensor<double, 3>(random, {2, 3, 8});
  auto layer = saved_and_loaded(full);

  const RemovedHeads first = layer.remove_heads(Numbers{1});
  EXPECT_EQ(first.removed, (Numbers{1}));
  EXPECT_TRUE(first.already_gone.empty());
  EXPECT_EQ(layer.num_heads(), 3);

  layer = saved_and_loaded(layer);
  EXPECT_EQ(layer.remove_heads(Numbers{2}).removed, (Numbers{2}));
  const RemovedHeads again = layer.remove_heads(Numbers{1, 1});
  EXPECT_TRUE(again.removed.empty());
  EXPECT_EQ(again.already_gone, (Numbers{1}));
  EXPECT_EQ(layer.heads().original_heads, (Numbers{0, 3}));
  EXPECT_EQ(layer.num_heads(), 2);
  EXPECT_EQ(layer.config().num_heads, 4);
  EXPECT_EQ(layer.head(1).original_head, 3);
  EXPECT_EQ(layer.head(1).w_q(1, 2), full.head(3).w_q(1, 2));

  const double gates[4] = {1, 0, 0, 1};
  const Tensor<double, 3> masked = y_of(full, {.x_q = x.view()}, {.gates = {gates, {4}}});
  const Tensor<double, 3> removed = y_of(saved_and_loaded(layer), {.x_q = x.view()});
  for (index_t n = 0; n < x.size(); ++n) EXPECT_NEAR(removed.data()[n], masked.data()[n], 1e-14);
}

// Any subset of any grouping, in two steps, leaves what gates of 0 leave; kv heads without a head go.
TEST(MultiHeadHeads, AnySubsetIsGatesOfZero) {
  const std::uint64_t seed = test::run_seed();
  for (std::uint64_t round = 0; round < 40; ++round) {
    Random random(seed + round);
    const index_t num_kv_heads = random.integer(1, 3), num_heads = num_kv_heads * random.integer(1, 4);
    const MultiHeadConfig config{.d_model = 7,
                                 .num_heads = num_heads,
                                 .num_kv_heads = num_kv_heads,
                                 .head_dim = 4,
                                 .head_dim_v = 3,
                                 .b_k = random.chance(0.5),
                                 .q_norm = random.chance(0.5),
                                 .bias_kv = random.chance(0.5),
                                 .sinks = random.chance(0.5)};
    const auto full = test::random_layer<double>(config, random);
    auto layer = saved_and_loaded(full);
    Tensor<double, 1> gates({num_heads});
    Numbers gone, left;
    for (index_t h = 0; h < num_heads; ++h) {
      const bool remove = random.chance(0.5) && !(h + 1 == num_heads && left.empty());
      (remove ? gone : left).push_back(h);
      gates(h) = remove ? 0 : 1;
    }
    for (std::size_t n = 0; n < gone.size(); ++n) layer.remove_heads(std::span(gone).subspan(n, 1));
    EXPECT_EQ(layer.heads().original_heads, left);
    std::set<index_t> kv_left;
    for (const index_t h : left) kv_left.insert(h / (num_heads / num_kv_heads));
    EXPECT_EQ(layer.heads().original_kv_heads, Numbers(kv_left.begin(), kv_left.end()));
    EXPECT_EQ(layer.extents().num_kv_heads, static_cast<index_t>(kv_left.size()));
    EXPECT_EQ(layer.parameters().w_k.shape(0), static_cast<index_t>(kv_left.size()) * 4);

    const auto x = random_tensor<double, 3>(random, {2, 3, 7});
    const Tensor<double, 3> masked = y_of(full, {.x_q = x.view()}, {.gates = gates.view()});
    const Tensor<double, 3> removed = y_of(saved_and_loaded(layer), {.x_q = x.view()});
    for (index_t n = 0; n < x.size(); ++n) ASSERT_NEAR(removed.data()[n], masked.data()[n], 1e-13) << "round " << round;
  }
}

TEST(MultiHeadHeads, RemovingAllMustBeAskedForAndLeavesTheOutputBias) {
  Random random(test::run_seed());
  auto layer =
      test::random_layer<float>({.d_model = 8, .num_heads = 4, .num_kv_heads = 2, .rope = RopeConfig{}}, random);
  layer.remove_heads(Numbers{2});
  EXPECT_EQ(
      error_of([&] {
        layer.remove_heads(Numbers{0, 1, 2, 3});
      }),
      "MultiHeadAttention::remove_heads: a head must remain, got removed=[0, 1, 3], num_heads=3; RemoveAll::allow "
      "leaves the output bias alone");
  EXPECT_EQ(layer.num_heads(), 3);
  layer.remove_heads(Numbers{0, 1, 2, 3}, RemoveAll::allow);
  EXPECT_EQ(layer.num_heads(), 0);
  EXPECT_EQ(layer.extents().num_kv_heads, 0);
  const auto x = random_tensor<float, 3>(random, {2, 3, 8}), dy = random_tensor<float, 3>(random, {2, 3, 8}, 0.2);
  const auto loaded = saved_and_loaded(layer);
  MultiHeadActivations<float> activations;
  Tensor<float, 3> y({2, 3, 8}), dx({2, 3, 8});
  std::fill_n(dx.data(), dx.size(), 7.0f);
  loaded.forward({.x_q = x.view()}, {.y = y.view()}, {}, &activations);
  MultiHeadParameters<float> d = loaded.zero_gradients();
  loaded.backward({.x_q = x.view()}, activations, dy.view(), {.dx_q = dx.view(), .parameters = &d});
  for (index_t n = 0; n < y.size(); ++n) {
    EXPECT_EQ(y.data()[n], layer.parameters().b_o(n % 8));
    EXPECT_EQ(dx.data()[n], 0.0f);
  }
  double sum = 0, magnitude = 0;
  for (index_t n = 0; n < 6; ++n) sum += dy.data()[n * 8], magnitude += std::abs(dy.data()[n * 8]);
  EXPECT_NEAR(d.b_o(0), sum, 6 * 0x1p-24 * magnitude);          // six roundings in f32, whatever the order
  EXPECT_TRUE(layer.remove_heads(Numbers{3}).removed.empty());  // nothing left to refuse
}

TEST(MultiHeadHeads, RefusesInWords) {
  MultiHeadAttention<float> layer({.d_model = 8, .num_heads = 4, .num_kv_heads = 2});
  EXPECT_EQ(error_of([&] {
              layer.remove_heads(Numbers{0, 4});
            }),
            "MultiHeadAttention::remove_heads: a head must be one of the original layer, got head=4, num_heads=4");
  EXPECT_EQ(layer.num_heads(), 4);
  layer.remove_heads(Numbers{0});
  EXPECT_EQ(error_of([&] { layer.head(3); }),
            "MultiHeadAttention::head: the head must be one of num_heads, got head=3, num_heads=3");
  const auto made = [&](RemainingHeads heads) {
    return error_of([&] { MultiHeadAttention<float>(layer.config(), heads); });
  };
  EXPECT_EQ(made({{0, 4}, {0, 1}, {0, 1}}),
            "MultiHeadAttention: original_heads must ascend and be below num_heads, got original_heads=[0, 4], "
            "num_heads=4");
  EXPECT_EQ(made({{1, 1}, {0}, {0, 0}}),
            "MultiHeadAttention: original_heads must ascend and be below num_heads, got original_heads=[1, 1], "
            "num_heads=4");
  EXPECT_EQ(
      made({{0, 3}, {0, 2}, {0, 1}}),
      "MultiHeadAttention: original_kv_heads must ascend and be below num_kv_heads, got original_kv_heads=[0, 2], "
      "num_kv_heads=2");
  EXPECT_EQ(made({{0, 3}, {0, 1}, {0, 0}}),
            "MultiHeadAttention: kv_head_of must lead each head to its kv head, got original_heads=[0, 3], "
            "original_kv_heads=[0, 1], kv_head_of=[0, 0], heads_per_kv=2");
}

}  // namespace
}  // namespace multihead::nn
