// What the public cases leave open.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "multihead/onnx/operators.hpp"
#include "onnx/definition.hpp"

namespace multihead {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<double> values(const OnnxTensor& tensor) { return test::onnx_values<double>(tensor); }

// One query and two keys of width 1, whose products are 2 and 8 at scale 1.
class OnnxAttention : public testing::Test {
 protected:
  OnnxAttention() {
    q_(0, 0, 0, 0) = 2;
    k_(0, 0, 0, 0) = 1;
    k_(0, 0, 1, 0) = 4;
    v_(0, 0, 0, 0) = 10;
    v_(0, 0, 1, 0) = 20;
  }

  std::vector<double> qk(OnnxAttentionOptions options, const OnnxView& mask = {}) {
    options.qk_matmul_output = true;
    return values(onnx_attention({q_, k_, v_, mask}, options).qk_matmul_output);
  }

  Tensor<float, 4> q_{{1, 1, 1, 1}}, k_{{1, 1, 2, 1}}, v_{{1, 1, 2, 1}};
};

TEST_F(OnnxAttention, ModeZeroIsRawAlsoWithASoftcap) {
  EXPECT_EQ(qk({.softcap = 2}), (std::vector<double>{2, 8})) << "the NumPy reference gives 1.523 and 1.999";
  const auto capped = qk({.softcap = 2, .qk_matmul_output_mode = 1});
  EXPECT_FLOAT_EQ(static_cast<float>(capped[0]), 2 * std::tanh(1.0f));
  EXPECT_FLOAT_EQ(static_cast<float>(capped[1]), 2 * std::tanh(4.0f));
  EXPECT_EQ(qk({.qk_matmul_output_mode = 1}), (std::vector<double>{2, 8})) << "without a softcap 1 is 0";
}

TEST_F(OnnxAttention, ModeTwoHasMinusInfinityWhereARuleHidesTheKey) {
  const bool second[] = {false, true};
  const TensorView<const bool, 1> mask(second, {2});
  EXPECT_EQ(qk({.qk_matmul_output_mode = 2}, mask), (std::vector<double>{-kInfinity, 8}));
  EXPECT_EQ(qk({.is_causal = true, .qk_matmul_output_mode = 2}), (std::vector<double>{2, -kInfinity}));
  EXPECT_EQ(qk({.is_causal = true, .qk_matmul_output_mode = 2}, mask), (std::vector<double>{-kInfinity, -kInfinity}));
  const float bias[] = {0.5f, -1.0f};
  EXPECT_EQ(qk({.qk_matmul_output_mode = 2}, TensorView<const float, 1>(bias, {2})), (std::vector<double>{2.5, 7}));
  k_(0, 0, 1, 0) = NAN;
  EXPECT_EQ(qk({.is_causal = true, .qk_matmul_output_mode = 2}), (std::vector<double>{2, -kInfinity}))
      << "whatever stands in a hidden slot";
}

TEST_F(OnnxAttention, ALastMaskAxisOfOneIsBroadcastAt23AndShortFrom24On) {
  const bool one[] = {true};
  const TensorView<const bool, 1> mask(one, {1});
  EXPECT_EQ(qk({.opset = 23, .qk_matmul_output_mode = 2}, mask), (std::vector<double>{2, 8}));
  EXPECT_EQ(qk({.opset = 24, .qk_matmul_output_mode = 2}, mask), (std::vector<double>{2, -kInfinity}));
  EXPECT_EQ(qk({.opset = 24, .qk_matmul_output_mode = 2}, TensorView<const bool, 2>(one, {1, 0})),
            (std::vector<double>{-kInfinity, -kInfinity}));
}

TEST_F(OnnxAttention, MasksOfAnyNumberAreAdded) {
  const std::int32_t integers[] = {1, 0};
  EXPECT_EQ(qk({.qk_matmul_output_mode = 2}, TensorView<const std::int32_t, 1>(integers, {2})),
            (std::vector<double>{3, 8}))
      << "an integer 0 or 1 is a number, not a bool";
  const double huge[] = {-1e300, -std::numeric_limits<double>::infinity()};
  const auto biased = qk({.qk_matmul_output_mode = 2}, TensorView<const double, 1>(huge, {2}));
  EXPECT_EQ(biased[0], -static_cast<double>(std::numeric_limits<float>::max())) << "finite stays finite";
  EXPECT_EQ(biased[1], -kInfinity);
  EXPECT_EQ(values(onnx_attention({q_, k_, v_, TensorView<const double, 1>(huge, {2})}).y), std::vector<double>{10})
      << "a key of very low bias alone is still seen";
}

TEST_F(OnnxAttention, ScaleZeroAveragesAndSoftcapZeroIsOff) {
  EXPECT_EQ(values(onnx_attention({q_, k_, v_}, {.scale = 0.0}).y), std::vector<double>{15});
  EXPECT_EQ(qk({.softcap = 0, .qk_matmul_output_mode = 1}), (std::vector<double>{2, 8}));
}

TEST_F(OnnxAttention, ScoresInF64KeepWhatF32Rounds) {
  q_(0, 0, 0, 0) = 1 + 0x1p-20f;
  k_(0, 0, 0, 0) = 1 + 0x1p-20f;
  k_(0, 0, 1, 0) = 1 + 0x1p-19f;
  // The scores differ by 2^-20 + 2^-40: at a softmax in f64 the outputs know more than f32 can.
  const double difference = (1 + 0x1p-20) * 0x1p-20, p = 1 / (1 + std::exp(difference));
  const Tensor<double, 4> v64 = [&] {
    Tensor<double, 4> v({1, 1, 2, 1});
    v(0, 0, 0, 0) = 1;
    return v;
  }();
  Tensor<double, 4> q64({1, 1, 1, 1}), k64({1, 1, 2, 1});
  q64(0, 0, 0, 0) = q_(0, 0, 0, 0);
  for (index_t j = 0; j < 2; ++j) k64(0, 0, j, 0) = k_(0, 0, j, 0);
  EXPECT_NEAR(values(onnx_attention({q64, k64, v64}).y)[0], p, 1e-15);
  EXPECT_EQ(values(onnx_attention({q_, k_, v_}, {.softmax_precision = OnnxType::f64}).y)[0],
            static_cast<float>(10 * p + 20 * (1 - p)));
}

TEST_F(OnnxAttention, RankThreeMaskIsHeadsQueriesKeys) {
  const Tensor<float, 4> q({1, 2, 1, 1}), k({1, 2, 2, 1});
  const bool mask[] = {true, false, false, true};
  const auto probs = values(onnx_attention({q, k, k, TensorView<const bool, 3>(mask, {2, 1, 2})},
                                           {.qk_matmul_output_mode = 3, .qk_matmul_output = true})
                                .qk_matmul_output);
  EXPECT_EQ(probs, (std::vector<double>{1, 0, 0, 1}));
}

TEST_F(OnnxAttention, CausalWithoutACacheIsTopLeft) {
  const Tensor<float, 4> q({1, 1, 2, 1}), k({1, 1, 4, 1});
  const auto probs =
      values(onnx_attention({q, k, k}, {.is_causal = true, .qk_matmul_output_mode = 3, .qk_matmul_output = true})
                 .qk_matmul_output);
  EXPECT_EQ(probs, (std::vector<double>{1, 0, 0, 0, 0.5, 0.5, 0, 0}));
}

TEST_F(OnnxAttention, InputsMayHaveAnyStrides) {
  // q and k lie as [B, S, H, D]; one value row stands for both keys.
  Tensor<float, 4> q({2, 3, 2, 4}), k({2, 5, 1, 4}), v({2, 1, 1, 3});
  for (index_t n = 0; n < q.size(); ++n) q.data()[n] = 0.01f * static_cast<float>(n);
  for (index_t n = 0; n < k.size(); ++n) k.data()[n] = 0.02f * static_cast<float>(n % 7);
  for (index_t n = 0; n < v.size(); ++n) v.data()[n] = static_cast<float>(n);
  const TensorView<const float, 4> values_of_all(v.data(), {2, 1, 5, 3}, {3, 3, 0, 1});
  const OnnxAttentionInput input{q.view().permute({0, 2, 1, 3}), k.view().permute({0, 2, 1, 3}), values_of_all};
  const auto y = values(onnx_attention(input).y);
  ASSERT_EQ(y.size(), 36u);
  for (std::size_t n = 0; n < y.size(); ++n)
    EXPECT_FLOAT_EQ(static_cast<float>(y[n]), static_cast<float>(n % 3 + n / 18 * 3));
}

}  // namespace
}  // namespace multihead
