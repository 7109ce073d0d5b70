// Numbers at the edge: huge scores, signs, NaN that must stay hidden, NaN that must show, slopes, shared gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/philox.hpp"
#include "tests/support/error_rule.hpp"
#include "tests/support/small_attention.hpp"

namespace multihead::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// pytorch/pytorch#121558: a score of 1.4e11 is far past f16 and no trouble in f32.
TEST(AttentionNumbers, HugeEqualScores) {
  for (const index_t keys : {1, 2}) {
    AttentionProblem problem({.batch = 1,
                              .seqlen_q = keys,
                              .seqlen_kv = keys,
                              .num_heads = 1,
                              .head_dim = 64,
                              .head_dim_v = 64,
                              .dtype = DType::bf16},
                             run_seed());
    for (auto* operand : {&problem.q, &problem.k, &problem.v}) operand->generate([](auto) { return 133120.0; });
    const auto result = problem.forward(core_engine());
    for (double value : result.out.values()) EXPECT_EQ(value, 133120);
    for (double value : problem.backward(core_engine(), result).dq.values()) EXPECT_TRUE(std::isfinite(value));
  }
}

// From lse alone exp(score - lse) is off for rows of very large scores: the row's max and sum travel apart.
TEST(AttentionNumbers, GradientsOfRowsWithHugeScores) {
  AttentionProblem problem({.seqlen_q = 6, .seqlen_kv = 9, .scale = Scale::large}, run_seed());
  problem.q.generate([](auto) { return 3000.0; });
  problem.k.generate([&](auto index) { return 3000.0 + static_cast<double>(index[1] % 2) * 0x1p-10; });
  const auto result = problem.forward(core_engine());
  // All scores equal to within the ulp of 1e8: nothing but finite numbers, and rows of dv that sum up to dout.
  const auto gradients = problem.backward(core_engine(), result);
  for (index_t d = 0; d < 8; ++d) {
    double from = 0, to = 0;
    for (index_t i = 0; i < 6; ++i) from += problem.dout.get({0, i, 1, d});
    for (index_t j = 0; j < 9; ++j) to += gradients.dv.get({0, j, 1, d});
    EXPECT_NEAR(from, to, 1e-5);
  }
}

// pytorch/pytorch PR#105202: a negative scale is a scale.
TEST(AttentionNumbers, ScaleOfAnySign) {
  const auto q = tensor({1, 1, 1, 1}, {2}), k = tensor({1, 2, 1, 1}, {1, 3}), v = tensor({1, 2, 1, 1}, {10, 20});
  Tensor<float, 4> out({1, 1, 1, 1}), probs({1, 1, 1, 2});
  Tensor<float, 3> row_max({1, 1, 1});
  attention_forward({.q = q.view(), .k = k.view(), .v = v.view()},
                    {.out = out.view(), .probs = probs.view(), .row_max = row_max.view()}, {.scale = -0.5});
  expect_near(list(out), {11.1920292});
  expect_near(list(probs), {0.880797078, 0.119202922});
  EXPECT_EQ(row_max(0, 0, 0), -1);
  for (const Scale scale : {Scale::negative, Scale::zero, Scale::large}) {
    expect_core_exact(AttentionProblem({.seqlen_q = 7, .seqlen_kv = 150, .scale = scale}, run_seed()));
  }
}

// pytorch/pytorch#101967: 0 * NaN is NaN, so what is hidden must not be multiplied at all.
TEST(AttentionNumbers, NanAndInfinityInAHiddenSlot) {
  AttentionProblem problem({.batch = 1,
                            .seqlen_q = 2,
                            .seqlen_kv = 2,
                            .num_heads = 1,
                            .head_dim = 4,
                            .head_dim_v = 4,
                            .visible = Visible::full},
                           run_seed());
  problem.visible.generate([](auto index) { return index[3] == 0; });
  const auto expected = problem.forward(core_engine());
  const auto expected_gradients = problem.backward(core_engine(), expected);
  for (auto operand : {&AttentionProblem::k, &AttentionProblem::v}) {
    for (const double poison : {kNan, kInfinity, -kInfinity}) {
      AttentionProblem poisoned = problem;
      for (index_t d = 0; d < 4; ++d) (poisoned.*operand).set({0, 1, 0, d}, poison);
      const auto result = poisoned.forward(core_engine());
      const auto gradients = poisoned.backward(core_engine(), result);
      EXPECT_EQ(result.out.bytes(), expected.out.bytes());
      EXPECT_EQ(gradients.dq.bytes(), expected_gradients.dq.bytes());
      EXPECT_EQ(gradients.dk.bytes(), expected_gradients.dk.bytes());
      EXPECT_EQ(gradients.dv.bytes(), expected_gradients.dv.bytes());
      for (index_t d = 0; d < 4; ++d) EXPECT_EQ(gradients.dk.get({0, 1, 0, d}), 0);
    }
  }
}

// huggingface/pytorch-image-models PR#1978: probability 0 is no dropout, bit for bit, whatever the seed.
TEST(AttentionNumbers, DropoutOfProbabilityZeroIsNone) {
  AttentionProblem problem({.seqlen_q = 30, .seqlen_kv = 200}, run_seed());
  const auto expected = problem.forward(core_engine());
  AnyTensor<4> out(DType::f32, problem.q.shape());
  for (const std::uint64_t seed : {1, 2}) {
    attention_forward(problem.input(), {.out = out.out()}, {.dropout = {.probability = 0, .seed = seed}});
    EXPECT_EQ(out.values(), expected.out.values());
  }
}

TEST(AttentionNumbers, DropoutOfProbabilityOneDropsAll) {
  AttentionProblem problem({.seqlen_q = 3, .seqlen_kv = 5, .dropout = 1.0, .probs = Probs::all}, run_seed());
  const auto result = problem.forward(core_engine());
  for (double value : result.out.values()) EXPECT_EQ(value, 0);
  double sum = 0;
  for (double value : result.probs.values()) sum += value;
  EXPECT_NEAR(sum, 2 * 4 * 3, 1e-5);  // returned before dropout
  const auto gradients = problem.backward(core_engine(), result);
  for (double value : gradients.dv.values()) EXPECT_EQ(value, 0);
}

TEST(AttentionNumbers, DropoutKeepsWhatThePublicFunctionSays) {
  Random random(run_seed());
  for (const double probability : {0.0, 0x1p-32, 0.1, 0.3, 0.5, 0.999, 1.0}) {
    int kept = 0;
    constexpr int kDraws = 20'000;
    for (int n = 0; n < kDraws; ++n) {
      const std::uint64_t seed = random.bits();
      const index_t id = random.integer(0, index_t{0xffffffff}), h = random.integer(0, 100),
                    i = random.integer(0, 1'000'000), j = random.integer(0, 1'000'000);
      const bool keeps = dropout_keeps(probability, seed, id, h, i, j);
      ASSERT_EQ(keeps, reference::dropout_keeps(probability, seed, id, h, i, j))
          << probability << " " << seed << " " << id << " " << h << " " << i << " " << j;
      kept += keeps;
    }
    EXPECT_NEAR(kept, kDraws * (1 - probability), 6 * std::sqrt(kDraws * probability * (1 - probability)) + 1e-9);
  }
}

// ml-explore/mlx PR#3071: slopes for any number of heads.
TEST(AttentionNumbers, AlibiSlopes) {
  const auto slopes = [](index_t heads) {
    std::vector<float> result(static_cast<std::size_t>(heads));
    alibi_slopes(TensorView<float, 1>(result.data(), {heads}));
    return result;
  };
  EXPECT_EQ(slopes(1), (std::vector<float>{0.00390625}));
  EXPECT_EQ(slopes(3), (std::vector<float>{.0625, .00390625, .25}));
  EXPECT_EQ(slopes(6), (std::vector<float>{.25, .0625, .015625, .00390625, .5, .125}));
  expect_near(
      slopes(12),
      {.5, .25, .125, .0625, .03125, .015625, .0078125, .00390625, .707106781, .353553391, .176776695, .0883883476},
      1e-7);
  for (const index_t heads : {3, 6, 12}) {
    AttentionProblem problem({.seqlen_q = 20, .seqlen_kv = 90, .num_heads = heads, .alibi = true}, run_seed());
    const std::vector<float> usual = slopes(heads);
    problem.slopes.generate([&](auto h) { return usual[static_cast<std::size_t>(h[0])]; });
    expect_core_exact(problem);
  }
}

TEST(AttentionNumbers, AlibiFollowsTheDiagonal) {
  const auto slope = tensor({1}, {1.0f});
  const Means result = means(1, {1, 2, 3}, {.alibi_slopes = slope.view()});  // distances 2, 1, 0 from the last key
  const double sum = std::exp(-2) + std::exp(-1) + 1;
  expect_near(result.probs, {std::exp(-2) / sum, std::exp(-1) / sum, 1 / sum});
  const index_t offset = 1;
  const Means moved = means(1, {1, 2, 3}, {.alibi_slopes = slope.view(), .mask = {.diagonal_offset = {&offset, {1}}}});
  const double moved_sum = 2 * std::exp(-1) + 1;
  expect_near(moved.probs, {std::exp(-1) / moved_sum, 1 / moved_sum, std::exp(-1) / moved_sum});
}

// pytorch/pytorch PR#188302: a shared bias alone wants a gradient, and gets the sum over all that share it.
TEST(AttentionNumbers, GradientOfASharedBias) {
  AttentionProblem problem(
      {.batch = 3, .seqlen_q = 1, .seqlen_kv = 2, .num_heads = 2, .head_dim = 1, .head_dim_v = 1, .bias = Bias::full},
      run_seed());
  for (auto* operand : {&problem.q, &problem.k, &problem.bias}) operand->generate([](auto) { return 0.0; });
  problem.v.generate([](auto index) { return static_cast<double>(index[1]); });
  problem.dout.generate([](auto) { return 1.0; });
  const auto run = [&](std::array<index_t, 4> shape) {
    problem.bias = AnyTensor<4>(DType::f32, shape);
    problem.bias.generate([](auto) { return 0.0; });
    const auto saved = problem.forward(core_engine());
    AnyTensor<4> dbias(DType::f32, shape);
    attention_backward({.q = problem.q.in(),
                        .k = problem.k.in(),
                        .v = problem.v.in(),
                        .out = saved.out.in(),
                        .row_max = saved.row_max.in(),
                        .row_sum = saved.row_sum.in(),
                        .dout = problem.dout.in()},
                       {.dbias = dbias.broadcast_out()}, problem.options());
    return dbias.values();
  };
  EXPECT_EQ(run({1, 1, 1, 2}), (std::vector<double>{-1.5, 1.5}));
  const auto each = run({3, 2, 1, 2});
  for (std::size_t n = 0; n < each.size(); ++n) EXPECT_EQ(each[n], n % 2 == 0 ? -0.25 : 0.25);
  EXPECT_EQ(run({1, 1, 1, 1}), (std::vector<double>{0}));
  EXPECT_EQ(run({3, 1, 1, 2}), (std::vector<double>{-.5, .5, -.5, .5, -.5, .5}));
}

// Query head h reads kv head kv_head_of[h]: with equal scores dbias is p * (v - mean of v) of that kv head.
TEST(AttentionNumbers, GradientOfABiasFollowsTheHeadMap) {
  const std::vector<index_t> kv_head_of{1, 0, 0, 1};
  const Tensor<float, 4> q({1, 1, 4, 1}), k({1, 2, 2, 1}), bias({1, 4, 1, 2});
  const auto v = tensor({1, 2, 2, 1}, {0, 0, 2, 4}), dout = tensor({1, 1, 4, 1}, {1, 1, 1, 1});
  Tensor<float, 4> out({1, 1, 4, 1}), dbias({1, 4, 1, 2});
  Tensor<float, 3> row_max({1, 4, 1}), row_sum({1, 4, 1});
  const AttentionOptions options{.bias = bias, .kv_head_of = kv_head_of};
  attention_forward({q, k, v}, {.out = out, .row_max = row_max, .row_sum = row_sum}, options);
  attention_backward({q, k, v, out, row_max, row_sum, dout}, {.dbias = dbias}, options);
  EXPECT_EQ(list(dbias), (std::vector<float>{-1, 1, -.5, .5, -.5, .5, -1, 1}));
}

}  // namespace
}  // namespace multihead::test
