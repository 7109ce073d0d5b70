// Which keys a query sees: masks that broke other libraries, each with numbers to check by eye and again with random
// q and k against the reference. The names of public threads tell where each was seen.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/error_rule.hpp"
#include "tests/support/small_attention.hpp"

namespace multihead::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();

/// A random problem of these options, forward and backward against the reference, in every dtype.
void expect_exact_in_every_dtype(AttentionConfig config, const std::function<void(AttentionProblem&)>& change = {}) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    config.dtype = dtype;
    AttentionProblem problem(config, run_seed());
    if (change) change(problem);
    expect_core_exact(problem);
  }
}

/// Replaces the problem's boolean mask or bias by one plane for all sequences and heads.
void set_plane(AnyTensor<4>& operand, DType dtype, index_t rows, index_t columns, const std::vector<float>& values) {
  operand = AnyTensor<4>(dtype, {1, 1, rows, columns});
  operand.generate([&](auto index) { return values[static_cast<std::size_t>(index[2] * columns + index[3])]; });
}

// pytorch/pytorch#41508: a band and padding leave a query without keys; a NaN there reached every gradient.
TEST(AttentionMasks, BandAndPaddingLeaveAnEmptyRow) {
  const auto x = tensor({2, 3, 1, 1}, {1, 2, 3, 1, 2, 3});
  const auto band = tensor({3, 3}, {0, -kInfinity, -kInfinity, 0, 0, -kInfinity, -kInfinity, 0, 0});
  const std::vector<index_t> seqlen_kv{3, 1};
  AttentionOptions options{.bias = band.view(), .mask = {.seqlen_kv = {seqlen_kv.data(), {2}}}};

  const auto run = [&](index_t rows, Tensor<float, 4>& out, Tensor<float, 4>& dq, Tensor<float, 4>& dk,
                       Tensor<float, 4>& dv) {
    const auto q = x.view().slice(1, 0, rows);
    const BroadcastView bias = band.view().slice(0, 0, rows);
    options.bias = bias;
    Tensor<float, 3> row_max({2, 1, rows}), row_sum({2, 1, rows});
    attention_forward({.q = q, .k = x.view(), .v = x.view()},
                      {.out = out.view(), .row_max = row_max.view(), .row_sum = row_sum.view()}, options);
    Tensor<float, 4> dout({2, rows, 1, 1});
    for (index_t b = 0; b < 2; ++b) dout(b, 0, 0, 0) = 1;
    attention_backward({.q = q,
                        .k = x.view(),
                        .v = x.view(),
                        .out = out.view(),
                        .row_max = row_max.view(),
                        .row_sum = row_sum.view(),
                        .dout = dout.view()},
                       {.dq = dq.view(), .dk = dk.view(), .dv = dv.view()}, options);
  };
  Tensor<float, 4> out({2, 3, 1, 1}), dq({2, 3, 1, 1}), dk({2, 3, 1, 1}), dv({2, 3, 1, 1});
  run(3, out, dq, dk, dv);
  EXPECT_EQ(out(1, 2, 0, 0), 0);
  EXPECT_EQ(list(dq), (std::vector<float>(6, 0)));
  EXPECT_EQ(list(dk), (std::vector<float>(6, 0)));
  EXPECT_EQ(list(dv), (std::vector<float>{1, 0, 0, 1, 0, 0}));

  // Without the row that is empty in one of the sequences, nothing else changes.
  Tensor<float, 4> out2({2, 2, 1, 1}), dq2({2, 2, 1, 1}), dk2({2, 3, 1, 1}), dv2({2, 3, 1, 1});
  run(2, out2, dq2, dk2, dv2);
  for (index_t b = 0; b < 2; ++b) {
    for (index_t i = 0; i < 2; ++i) EXPECT_EQ(out2(b, i, 0, 0), out(b, i, 0, 0));
  }
  EXPECT_EQ(list(dk2), list(dk));
  EXPECT_EQ(list(dv2), list(dv));

  expect_exact_in_every_dtype({.batch = 2, .seqlen_q = 3, .seqlen_kv = 3, .bias = Bias::full, .lengths = Lengths::kv},
                              [&](AttentionProblem& problem) {
                                set_plane(problem.bias, problem.wide_dtype(), 3, 3, {band.data(), band.data() + 9});
                                problem.seqlen_kv = {3, 1};
                              });
}

// pytorch/pytorch#110213: the lowest finite float is a number like any other; only -inf and false hide.
TEST(AttentionMasks, LowestFiniteBiasDoesNotHide) {
  const std::vector<float> bias_values{kLowest, kLowest, kLowest, 1, 1, 1, 1, 1, 1};
  const auto bias = tensor({3, 3}, bias_values);
  const Means result = means(3, {1, 2, 6}, {.bias = bias.view()});
  expect_near(result.out, {3, 3, 3});
  expect_near(result.probs, std::vector<double>(9, 1.0 / 3));

  // Random scores are absorbed by the lowest float, and a constant added to a row cancels.
  AttentionProblem problem({.batch = 1,
                            .seqlen_q = 3,
                            .seqlen_kv = 3,
                            .num_heads = 1,
                            .head_dim = 4,
                            .bias = Bias::full,
                            .probs = Probs::all},
                           run_seed());
  set_plane(problem.bias, DType::f32, 3, 3, bias_values);
  const auto biased = problem.forward(core_engine());
  problem.bias = {};
  const auto free = problem.forward(core_engine());
  for (index_t j = 0; j < 3; ++j) {
    EXPECT_FLOAT_EQ(static_cast<float>(biased.probs.get({0, 0, 0, j})), 1.0f / 3);
    for (const index_t i : {1, 2}) EXPECT_NEAR(biased.probs.get({0, 0, i, j}), free.probs.get({0, 0, i, j}), 1e-6);
  }
  expect_exact_in_every_dtype({.seqlen_q = 9, .seqlen_kv = 6, .bias = Bias::lowest, .probs = Probs::all});
}

// huggingface/transformers PR#27114: masks intersect; they are not added up until a filler overflows.
TEST(AttentionMasks, CausalAndPaddingIntersectInHalfPrecision) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    AttentionProblem problem({.batch = 1,
                              .seqlen_q = 5,
                              .seqlen_kv = 5,
                              .num_heads = 1,
                              .dtype = dtype,
                              .causal = Causal::top_left,
                              .visible = Visible::full,
                              .probs = Probs::all},
                             run_seed());
    problem.visible.generate([](auto index) { return index[3] >= 3; });
    const auto check = [&] {
      const auto result = problem.forward(core_engine());
      for (index_t i = 0; i < 3; ++i) {
        for (index_t d = 0; d < 8; ++d) EXPECT_EQ(result.out.get({0, i, 0, d}), 0);
        EXPECT_EQ(result.lse.get({0, 0, i}), -kInfinity);
      }
      for (index_t j = 0; j < 5; ++j) EXPECT_EQ(result.probs.get({0, 0, 3, j}), j == 3 ? 1 : 0);
    };
    check();
    expect_core_exact(problem);
    // A score near -32 on top of the lowest f16 is past the range of f16, and still an ordinary score.
    problem.bias = AnyTensor<4>(DType::f32, {1, 1, 1, 1});
    problem.bias.set({0, 0, 0, 0}, -65504);
    problem.q.generate([](auto) { return -4.0; });
    problem.k.generate([](auto index) { return 2 * std::sqrt(2.0) + 0.1 * static_cast<double>(index[1]); });
    check();
  }
}

// pytorch/pytorch PR#170415: true means that the key is seen. A 0/1 float is a bias.
TEST(AttentionMasks, TrueMeansVisible) {
  const auto visible = flags({2, 2}, {1, 0, 1, 0}), hidden = flags({2, 2}, {0, 1, 0, 1});
  EXPECT_EQ(means(2, {10, 20}, {.mask = {.visible = visible.view()}}).out, (std::vector<float>{10, 10}));
  EXPECT_EQ(means(2, {10, 20}, {.mask = {.visible = hidden.view()}}).out, (std::vector<float>{20, 20}));
  const auto ones_and_zeros = tensor({2, 2}, {1, 0, 1, 0});
  const double share = std::exp(1) / (std::exp(1) + 1);
  expect_near(means(2, {10, 20}, {.bias = ones_and_zeros.view()}).out,
              {10 * share + 20 * (1 - share), 10 * share + 20 * (1 - share)});
  expect_exact_in_every_dtype({.visible = Visible::rank2});
}

// microsoft/onnxruntime#14363: padding and causal together leave no weight on hidden keys.
TEST(AttentionMasks, CausalWithScatteredPadding) {
  const auto keep = flags({7}, {0, 1, 1, 0, 0, 1, 0});
  const Means result = means(7, {1, 2, 3, 4, 5, 6, 7}, {.mask = {.causal = Causal::top_left, .visible = keep.view()}});
  expect_near(result.out, {0, 2, 2.5, 2.5, 2.5, 11.0 / 3, 11.0 / 3});
  for (index_t i = 0; i < 7; ++i) {
    for (const index_t j : {0, 3, 4, 6}) EXPECT_EQ(result.probs[static_cast<std::size_t>(7 * i + j)], 0);
  }
  expect_exact_in_every_dtype({.seqlen_q = 7, .seqlen_kv = 7, .causal = Causal::top_left, .visible = Visible::per_key});
}

// Dao-AILab/flash-attention#1778: more queries than keys, and fewer, at either corner.
TEST(AttentionMasks, CausalAtBothCorners) {
  expect_near(means(5, {10, 20}, {.mask = {.causal = Causal::bottom_right}}).out, {0, 0, 0, 10, 15});
  expect_near(means(5, {10, 20}, {.mask = {.causal = Causal::top_left}}).out, {10, 15, 15, 15, 15});
  expect_near(means(2, {1, 2, 3, 4, 5}, {.mask = {.causal = Causal::bottom_right}}).out, {2.5, 3});
  expect_near(means(2, {1, 2, 3, 4, 5}, {.mask = {.causal = Causal::top_left}}).out, {1, 1.5});
  for (const Causal causal : {Causal::top_left, Causal::bottom_right}) {
    expect_exact_in_every_dtype({.seqlen_q = 5, .seqlen_kv = 2, .causal = causal});
    expect_exact_in_every_dtype({.seqlen_q = 2, .seqlen_kv = 5, .causal = causal});
  }
}

TEST(AttentionMasks, BottomRightSpeaksOfValidLengths) {
  const std::vector<index_t> seqlen_q{2}, seqlen_kv{3};
  const Mask mask{
      .causal = Causal::bottom_right, .seqlen_q = {seqlen_q.data(), {1}}, .seqlen_kv = {seqlen_kv.data(), {1}}};
  expect_near(means(4, {1, 2, 3, 4, 5}, {.mask = mask}).out, {1.5, 2, 0, 0});
}

TEST(AttentionMasks, ExplicitOffsetsOfAnySign) {
  for (const auto& [offset, expected] : std::vector<std::pair<index_t, std::vector<double>>>{
           {1, {1.5, 2, 2.5}}, {-1, {0, 1, 1.5}}, {-3, {0, 0, 0}}, {100, {2.5, 2.5, 2.5}}}) {
    const Mask mask{.causal = Causal::at_offset, .diagonal_offset = {&offset, {1}}};
    expect_near(means(3, {1, 2, 3, 4}, {.mask = mask}).out, expected);
  }
}

// pytorch/pytorch#99282, keras-team/keras#23038: asking for probabilities, or an inactive dropout, changes nothing.
TEST(AttentionMasks, CausalHoldsWhateverElseIsAsked) {
  expect_near(means(3, {1, 2, 4}, {.mask = {.causal = Causal::top_left}}).out, {1, 1.5, 7.0 / 3});
  const Tensor<float, 4> zero({1, 3, 2, 1});
  const auto v = tensor({1, 3, 2, 1}, {1, 1, 2, 2, 4, 4});
  Tensor<float, 4> plain({1, 3, 2, 1}), with_probs({1, 3, 2, 1}), with_dropout({1, 3, 2, 1}), probs({1, 2, 3, 3});
  const AttentionInput input{zero.view(), zero.view(), v.view()};
  const Mask causal{.causal = Causal::top_left};
  attention_forward(input, {.out = plain.view()}, {.mask = causal});
  attention_forward(input, {.out = with_probs.view(), .probs = probs.view()}, {.mask = causal});
  attention_forward(input, {.out = with_dropout.view()}, {.mask = causal, .dropout = {.probability = 0, .seed = 7}});
  EXPECT_EQ(list(with_probs), list(plain));
  EXPECT_EQ(list(with_dropout), list(plain));
  const double third = 1.0 / 3;
  expect_near(list(probs), {1, 0, 0, .5, .5, 0, third, third, third, 1, 0, 0, .5, .5, 0, third, third, third});
}

// huggingface/transformers#39408: left = 2 sees three keys, its own among them.
TEST(AttentionMasks, WindowIsInclusive) {
  const Mask mask{.causal = Causal::top_left, .window_left = 2};
  expect_near(means(6, {0, 1, 2, 3, 4, 5}, {.mask = mask}).out, {0, .5, 1, 2, 3, 4});
  expect_near(means(6, {0, 1, 2, 3, 4, 5}, {.mask = {.window_left = 1, .window_right = 1}}).out, {.5, 1, 2, 3, 4, 4.5});
  expect_near(means(3, {0, 1, 2}, {.mask = {.window_left = 0, .window_right = 0}}).out, {0, 1, 2});
  // Without causal the window stands at the bottom right corner.
  expect_near(means(2, {0, 1, 2, 3}, {.mask = {.window_left = 1}}).out, {2, 2.5});
  expect_exact_in_every_dtype({.seqlen_q = 6, .seqlen_kv = 6, .causal = Causal::top_left, .window_left = 2});
}

TEST(AttentionMasks, WindowAsWideAsAnIntegerIsOpen) {
  const index_t most = std::numeric_limits<index_t>::max();
  expect_near(means(3, {1, 2, 3}, {.mask = {.window_left = most, .window_right = most}}).out, {2, 2, 2});
}

// onnx/onnx#7865: capped before the mask, a hidden key stays hidden.
TEST(AttentionMasks, SoftcapComesBeforeTheMask) {
  const auto bias = tensor({1, 2}, {0, -kInfinity});
  const auto keep = flags({1, 2}, {1, 0});
  EXPECT_EQ(means(1, {5, 7}, {.softcap = 1.0, .bias = bias.view()}).probs, (std::vector<float>{1, 0}));
  EXPECT_EQ(means(1, {5, 7}, {.softcap = 1.0, .mask = {.visible = keep.view()}}).probs, (std::vector<float>{1, 0}));
  expect_exact_in_every_dtype({.softcap = 1.0, .bias = Bias::with_infinite, .visible = Visible::full});
}

// xjdr-alt/entropix#62: what is hidden has probability 0 exactly, so entropy counts visible keys alone.
TEST(AttentionMasks, EntropyOfUniformCausalRows) {
  const Means result = means(4, {1, 2, 3, 4}, {.mask = {.causal = Causal::top_left}});
  for (index_t i = 0; i < 4; ++i) {
    double entropy = 0;
    for (index_t j = 0; j < 4; ++j) {
      const double p = result.probs[static_cast<std::size_t>(4 * i + j)];
      EXPECT_EQ(p > 0, j <= i);
      if (p > 0) entropy -= p * std::log(p);
    }
    EXPECT_NEAR(entropy, std::log(static_cast<double>(i + 1)), 1e-6);
    EXPECT_NEAR(result.lse[static_cast<std::size_t>(i)], std::log(static_cast<double>(i + 1)), 1e-6);
  }
}

TEST(AttentionMasks, SinkTakesItsShareAndHasNoValue) {
  const auto sink = tensor({1}, {0.0f}), none = tensor({1}, {-kInfinity});
  const Means result = means(2, {3, 6}, {.sinks = sink.view()});  // three equal shares, one of them without a value
  expect_near(result.out, {3, 3});
  expect_near(result.lse, {std::log(3.0), std::log(3.0)});
  expect_near(means(2, {3, 6}, {.sinks = none.view()}).out, {4.5, 4.5});

  const auto nothing = flags({2}, {0, 0});
  const auto two = tensor({1}, {2.0f});
  const Means empty = means(1, {3, 6}, {.sinks = two.view(), .mask = {.visible = nothing.view()}});
  EXPECT_EQ(empty.out, (std::vector<float>{0}));
  EXPECT_EQ(empty.probs, (std::vector<float>{0, 0}));
  EXPECT_EQ(empty.lse, (std::vector<float>{2}));
}

}  // namespace
}  // namespace multihead::test
