// Rotary position embedding: both pairings, the turn itself, its gradient, its errors.
#include "multihead/nn/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_text.hpp"
#include "tests/support/random.hpp"

namespace multihead::nn {
namespace {

using test::error_of;
using test::Random;

template <class T>
Tensor<T, 4> random_tensor(Random& random, std::array<index_t, 4> shape) {
  Tensor<T, 4> x(shape);
  for (index_t n = 0; n < x.size(); ++n) x.data()[n] = T(random.uniform() + 0.5);
  return x;
}

// [1, S, H, D] turned for positions first, first + 1, ..
Tensor<double, 4> turned(const RopeConfig& config, const Tensor<double, 4>& x, index_t first, bool back = false) {
  const Rope rope(config, x.shape(3));
  Tensor<index_t, 1> positions({x.shape(1)});
  for (index_t i = 0; i < x.shape(1); ++i) positions(i) = first + i;
  const RopeTable<double> table = rope.table<double>(positions);
  const std::array<index_t, 3> shape{1, x.shape(1), rope.rotary_dim() / 2};
  const RopeAngles<double> angles{{table.cos.data(), shape}, {table.sin.data(), shape}, config.pairing};
  Tensor<double, 4> y(x.shape());
  back ? rope_backward<double>(x, y, angles) : rope_apply<double>(x, y, angles);
  return y;
}

double dot(const Tensor<double, 4>& a, const Tensor<double, 4>& b) {
  double sum = 0;
  for (index_t n = 0; n < a.size(); ++n) sum += a.data()[n] * b.data()[n];
  return sum;
}

const RopePairing kPairings[] = {RopePairing::half_split, RopePairing::interleaved};

// Attention case 44.
TEST(Rope, PairsAreHalvesOrNeighbours) {
  Tensor<double, 4> x({1, 1, 1, 4});
  for (index_t d = 0; d < 4; ++d) x(0, 0, 0, d) = static_cast<double>(d + 1);
  const double expected[2][4] = {{-1.984111, 1.959901, 2.462378, 4.019800}, {-1.142640, 1.922076, 2.959851, 4.029800}};
  for (const int kind : {0, 1}) {
    const Tensor<double, 4> y = turned({.pairing = kPairings[kind]}, x, 1);
    for (index_t d = 0; d < 4; ++d) EXPECT_NEAR(y(0, 0, 0, d), expected[kind][d], 1e-6) << "kind " << kind;
  }
}

// Attention case 44, second half: features permuted alike in q and k turn q . k of one pairing into that of the other.
TEST(Rope, PairingsAgreeOnPermutedFeatures) {
  Random random(test::run_seed());
  const index_t D = 10;
  const Tensor<double, 4> q = random_tensor<double>(random, {1, 1, 1, D}),
                          k = random_tensor<double>(random, {1, 1, 1, D});
  Tensor<double, 4> q_halves({1, 1, 1, D}), k_halves({1, 1, 1, D});
  for (index_t d = 0; d < D; ++d) {
    const index_t to = d / 2 + (d % 2) * (D / 2);
    q_halves(0, 0, 0, to) = q(0, 0, 0, d);
    k_halves(0, 0, 0, to) = k(0, 0, 0, d);
  }
  const RopeConfig halves{.pairing = RopePairing::half_split}, neighbours{.pairing = RopePairing::interleaved};
  EXPECT_NEAR(dot(turned(neighbours, q, 7), turned(neighbours, k, 3)),
              dot(turned(halves, q_halves, 7), turned(halves, k_halves, 3)), 1e-13);
}

// Attention case 45: a table in half precision would have the angle 1045 here, and the cosine -0.408165.
TEST(Rope, AnglesAreWiderThanTheModel) {
  const Rope rope({}, 32);
  EXPECT_NEAR(1857 * rope.inv_freq()[1], 1044.26784, 1e-5);
  const index_t position = 1857;
  EXPECT_NEAR(static_cast<double>(rope.table<float>({&position, {1}}).cos(0, 1)), 0.306693, 1e-6);
  const index_t far = 1'000'000'007;  // cosines of f32 angles would be noise here
  const double angle = 1'000'000'007 * rope.inv_freq()[0];
  EXPECT_FLOAT_EQ(rope.table<float>({&far, {1}}).cos(0, 0), static_cast<float>(std::cos(angle)));
}

TEST(Rope, ScoresDependOnTheDistanceAlone) {
  Random random(test::run_seed());
  for (const RopePairing pairing : kPairings) {
    const RopeConfig config{.rotary_dim = 6, .pairing = pairing};
    const auto q = random_tensor<double>(random, {1, 1, 1, 9}), k = random_tensor<double>(random, {1, 1, 1, 9});
    const double near = dot(turned(config, q, 5), turned(config, k, 2));
    EXPECT_NEAR(near, dot(turned(config, q, 1005), turned(config, k, 1002)), 1e-10);
    EXPECT_NEAR(near, dot(turned(config, q, -95), turned(config, k, -98)), 1e-10);
    EXPECT_GT(std::abs(near - dot(turned(config, q, 6), turned(config, k, 2))), 1e-6);
  }
}

TEST(Rope, TurnsAddUpAndFeaturesBehindRotaryDimStay) {
  Random random(test::run_seed());
  for (const RopePairing pairing : kPairings) {
    const RopeConfig config{.rotary_dim = 4, .pairing = pairing};
    const auto x = random_tensor<double>(random, {1, 1, 2, 7});
    const auto once = turned(config, x, 5), twice = turned(config, turned(config, x, 7), -2);
    for (index_t h = 0; h < 2; ++h) {
      for (index_t d = 0; d < 7; ++d) EXPECT_NEAR(once(0, 0, h, d), twice(0, 0, h, d), 1e-14);
      for (index_t d = 4; d < 7; ++d) EXPECT_EQ(once(0, 0, h, d), x(0, 0, h, d));
    }
  }
}

// <rotation(x), dy> = <x, rotation^T(dy)>, with yarn, whose factor is not 1.
TEST(Rope, BackwardIsTheTranspose) {
  Random random(test::run_seed());
  for (const RopePairing pairing : kPairings) {
    const RopeConfig config{.pairing = pairing, .scaling = RopeScaling::yarn, .factor = 4, .original_max_position = 32};
    const auto x = random_tensor<double>(random, {1, 5, 3, 8}), dy = random_tensor<double>(random, {1, 5, 3, 8});
    const double forward = dot(turned(config, x, 11), dy);
    EXPECT_NEAR(forward, dot(x, turned(config, dy, 11, true)), 1e-12 * std::abs(forward));
  }
}

TEST(Rope, InPlaceIsTheSame) {
  Random random(test::run_seed());
  for (const RopePairing pairing : kPairings) {
    const RopeConfig config{.rotary_dim = 4, .pairing = pairing};
    auto x = random_tensor<float>(random, {2, 3, 2, 5});
    Tensor<float, 4> y(x.shape());
    const index_t positions[6] = {3, 1, 4, 1, 5, 9};
    const RopeTable<float> table = Rope(config, 5).table<float>({positions, {6}});
    const RopeAngles<float> angles{{table.cos.data(), {2, 3, 2}}, {table.sin.data(), {2, 3, 2}}, pairing};
    rope_apply<float>(x, y, angles);
    rope_apply<float>(x, x, angles);
    for (index_t n = 0; n < x.size(); ++n) EXPECT_EQ(x.data()[n], y.data()[n]);
  }
}

TEST(Rope, RefusesInWords) {
  EXPECT_EQ(error_of([] { Rope({.rotary_dim = 5}, 8); }),
            "Rope: rotary_dim must be even and in [2, head_dim], got rotary_dim=5, head_dim=8");
  EXPECT_EQ(error_of([] { Rope({.rotary_dim = 10}, 8); }),
            "Rope: rotary_dim must be even and in [2, head_dim], got rotary_dim=10, head_dim=8");
  EXPECT_EQ(error_of([] { Rope({.base = 1}, 8); }), "Rope: base must be above 1, got base=1");
  EXPECT_EQ(error_of([] { Rope({.factor = 0.5}, 8); }), "Rope: factor must be at least 1, got factor=0.5");
  EXPECT_EQ(error_of([] { Rope({.scaling = RopeScaling::ntk}, 2); }),
            "Rope: ntk scaling must have a rotary_dim above 2, got rotary_dim=2");
  EXPECT_EQ(error_of([] { Rope({.scaling = RopeScaling::yarn}, 8); }),
            "Rope: original_max_position must be above 0 with dynamic, yarn and llama3 scaling, got "
            "original_max_position=0");
  EXPECT_EQ(error_of([] { Rope({.beta_fast = 1, .beta_slow = 2}, 8); }),
            "Rope: beta_fast > beta_slow > 0 must hold, got beta_fast=1, beta_slow=2");
  EXPECT_EQ(error_of([] { Rope({.low_freq_factor = 4}, 8); }),
            "Rope: high_freq_factor must be above low_freq_factor, got high_freq_factor=4, low_freq_factor=4");

  Tensor<float, 4> x({1, 2, 1, 4}), short_x({1, 1, 1, 4});
  Tensor<float, 3> table({1, 2, 2}), wide({1, 2, 3}), other({1, 1, 2});
  EXPECT_EQ(error_of([&] {
              rope_apply<float>(x, short_x, {table, table});
            }),
            "rope_apply: input and output must have one shape, got input=[1, 2, 1, 4], output=[1, 1, 1, 4]");
  EXPECT_EQ(error_of([&] {
              rope_apply<float>(x, x, {table, other});
            }),
            "rope_apply: cos and sin must have one shape, got cos=[1, 2, 2], sin=[1, 1, 2]");
  EXPECT_EQ(error_of([&] {
              rope_apply<float>(x, x, {wide, wide});
            }),
            "rope_apply: cos must be [batch or 1, seqlen or 1, at most head_dim/2], got cos=[1, 2, 3], input=[1, 2, 1, "
            "4]");
  const auto columns = x.view().permute({0, 3, 2, 1});
  EXPECT_EQ(error_of([&] {
              rope_backward<float>(columns, columns, {other, other});
            }),
            "rope_backward: cos must be [batch or 1, seqlen or 1, at most head_dim/2], got cos=[1, 1, 2], input=[1, 4, "
            "1, 2]");
  Tensor<float, 3> narrow({1, 1, 1});
  EXPECT_EQ(error_of([&] {
              rope_backward<float>(columns, columns, {narrow, narrow});
            }),
            "rope_backward: the last axis of every view must be contiguous, got input stride=4, output stride=4, cos "
            "stride=1, sin stride=1");
}

}  // namespace
}  // namespace multihead::nn
