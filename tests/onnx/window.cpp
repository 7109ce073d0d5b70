// The window of Attention-25 on small cases whose visible keys are written out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "multihead/onnx/operators.hpp"

namespace multihead {
namespace {

// Scores are all 0, so a row's probabilities are equal over the keys that it sees: "1" marks those. One string a
// sequence, its rows separated by spaces.
struct Drawing {
  index_t batch = 1, seqlen_q = 4, seqlen_kv = 4, past = 0;
  OnnxView mask = {}, nonpad = {};

  std::vector<std::string> draw(OnnxAttentionOptions options) const {
    const Tensor<float, 4> q({batch, 1, seqlen_q, 2}), k({batch, 1, seqlen_kv, 2}), old({batch, 1, past, 2});
    options.qk_matmul_output = true;
    options.qk_matmul_output_mode = 3;
    OnnxAttentionInput input{q, k, k, mask, {}, {}, nonpad};
    if (past > 0) input.past_key = input.past_value = old;
    const OnnxAttentionOutput output = onnx_attention(input, options);
    const float* prob = output.qk_matmul_output.data<float>();
    std::vector<std::string> maps;
    for (index_t b = 0; b < batch; ++b) {
      std::string map;
      for (index_t i = 0; i < seqlen_q; ++i) {
        if (i > 0) map += ' ';
        for (index_t j = 0; j < past + seqlen_kv; ++j) map += *prob++ > 0 ? '1' : '0';
      }
      maps.push_back(map);
    }
    return maps;
  }
};

using Maps = std::vector<std::string>;

TEST(OnnxWindow, LeftTwoSeesThreeKeys) {
  EXPECT_EQ((Drawing{.seqlen_q = 5, .seqlen_kv = 5}.draw({.is_causal = true, .left_window_size = 2})),
            Maps{"10000 11000 11100 01110 00111"});
}

TEST(OnnxWindow, ASideOfMinusOneIsOpen) {
  const Drawing square;
  EXPECT_EQ(square.draw({.left_window_size = 1, .right_window_size = -1}), Maps{"1111 1111 0111 0011"});
  EXPECT_EQ(square.draw({.left_window_size = -1, .right_window_size = 1}), Maps{"1100 1110 1111 1111"});
  EXPECT_EQ(square.draw({.left_window_size = -1, .right_window_size = -1}), Maps{"1111 1111 1111 1111"});
}

TEST(OnnxWindow, TheFigureOfTheStandard) {
  EXPECT_EQ((Drawing{.seqlen_kv = 6}.draw({.left_window_size = 2, .right_window_size = 1})),
            Maps{"110000 111000 111100 011110"});
}

TEST(OnnxWindow, ZeroAndZeroIsTheDiagonal) {
  EXPECT_EQ((Drawing{.seqlen_kv = 3}.draw({.left_window_size = 0, .right_window_size = 0})), Maps{"100 010 001 000"});
}

TEST(OnnxWindow, CausalCutsTheRightSide) {
  EXPECT_EQ(Drawing{}.draw({.is_causal = true, .left_window_size = 1, .right_window_size = 2}),
            Maps{"1000 1100 0110 0011"});
}

TEST(OnnxWindow, BoundsBeyondEveryKeyAreOpen) {
  constexpr index_t kMost = std::numeric_limits<index_t>::max();
  EXPECT_EQ(Drawing{}.draw({.left_window_size = kMost, .right_window_size = kMost}), Maps{"1111 1111 1111 1111"});
  EXPECT_EQ(Drawing{}.draw({.is_causal = true, .left_window_size = 3}), Maps{"1000 1100 1110 1111"});
  EXPECT_EQ((Drawing{.seqlen_q = 6, .seqlen_kv = 2}.draw({.left_window_size = 3})), Maps{"11 11 11 11 01 00"})
      << "wider than the keys, and yet it ends";
  EXPECT_EQ(Drawing{}.draw({.left_window_size = 8, .right_window_size = 7}), Maps{"1111 1111 1111 1111"});
}

TEST(OnnxWindow, ThePastMovesTheDiagonal) {
  const Drawing decode{.seqlen_q = 2, .seqlen_kv = 2, .past = 3};  // queries at 3 and 4
  EXPECT_EQ(decode.draw({.left_window_size = 1}), Maps{"00111 00011"});
  EXPECT_EQ(decode.draw({.is_causal = true, .left_window_size = 1}), Maps{"00110 00011"});
  EXPECT_EQ(decode.draw({.left_window_size = 2, .right_window_size = 0}), Maps{"01110 00111"});
}

TEST(OnnxWindow, LengthsMoveTheDiagonalOfEachSequence) {
  index_t lengths[] = {2, 5, 1};
  Drawing padded{.batch = 3, .seqlen_q = 2, .seqlen_kv = 5};  // queries at {0, 1}, {3, 4}, {-1, 0}
  padded.nonpad = TensorView<const index_t, 1>(lengths, {3});
  EXPECT_EQ(padded.draw({.left_window_size = 1}), (Maps{"11000 11000", "00111 00011", "10000 10000"}));
  EXPECT_EQ(padded.draw({.left_window_size = 0, .right_window_size = 0}),
            (Maps{"10000 01000", "00010 00001", "00000 10000"}))
      << "a negative position is not moved to 0";
  EXPECT_EQ(padded.draw({.is_causal = true, .left_window_size = 1}),
            (Maps{"10000 11000", "00110 00011", "00000 10000"}));
}

TEST(OnnxWindow, MasksIntersectWithIt) {
  const bool visible[] = {true, false, true, true};
  Drawing masked;
  masked.mask = TensorView<const bool, 1>(visible, {4});
  EXPECT_EQ(masked.draw({.left_window_size = 1, .right_window_size = 0}), Maps{"1000 1000 0010 0011"});
  const float bias[] = {-INFINITY, 0.0f};  // short: keys 2 and 3 are not reached
  masked.mask = TensorView<const float, 1>(bias, {2});
  EXPECT_EQ(masked.draw({.left_window_size = 1, .right_window_size = 0}), Maps{"0000 0100 0100 0000"});
}

TEST(OnnxWindow, AveragesTheValuesThatItSees) {
  const Tensor<float, 4> q({1, 1, 5, 2});
  Tensor<float, 4> v({1, 1, 5, 1});
  for (index_t j = 0; j < 5; ++j) v(0, 0, j, 0) = static_cast<float>(j);
  const OnnxAttentionOutput output = onnx_attention({q, q, v}, {.is_causal = true, .left_window_size = 2});
  const float* y = output.y.data<float>();
  EXPECT_EQ(std::vector<float>(y, y + 5), (std::vector<float>{0, 0.5f, 1, 2, 3}));
}

}  // namespace
}  // namespace multihead
