// Every rule of the ONNX face that an input can break, with the whole text of its error.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "multihead/error.hpp"
#include "multihead/onnx/operators.hpp"
#include "tests/support/error_text.hpp"

namespace multihead {
namespace {

using test::error_of;

// A valid node: B=2, Hq=4, Hkv=2, Sq=3, Skv=5, D=8, Dv=6. Each test breaks one thing.
class OnnxErrors : public testing::Test {
 protected:
  template <class E = ShapeError>
  std::string error() const {
    return error_of<E>([&] { onnx_attention(input, options); });
  }

  // The same node at rank 3.
  void flatten() {
    input.q = q3_;
    input.k = k3_;
    input.v = v3_;
    options.q_num_heads = 4;
    options.kv_num_heads = 2;
  }

  Tensor<float, 4> q_{{2, 4, 3, 8}}, k_{{2, 2, 5, 8}}, v_{{2, 2, 5, 6}}, past_k_{{2, 2, 1, 8}}, past_v_{{2, 2, 1, 6}};
  Tensor<float, 3> q3_{{2, 3, 32}}, k3_{{2, 5, 16}}, v3_{{2, 5, 12}};
  Tensor<index_t, 1> nonpad_{{2}};
  OnnxAttentionInput input{q_, k_, v_};
  OnnxAttentionOptions options;
};

TEST_F(OnnxErrors, TheNodeItselfIsValid) {
  EXPECT_NO_THROW(onnx_attention(input, options));
  flatten();
  EXPECT_NO_THROW(onnx_attention(input, options));
}

TEST_F(OnnxErrors, Attributes) {
  options.opset = 22;
  EXPECT_EQ(error(), "onnx_attention: the operator exists from opset 23 on, got opset=22");
  options = {.scale = -0.5};
  EXPECT_EQ(error(),
            "onnx_attention: scale must be finite and not negative, got scale=-0.5; q and k are each multiplied "
            "by its square root");
  options = {.scale = std::numeric_limits<double>::infinity()};
  EXPECT_EQ(error(),
            "onnx_attention: scale must be finite and not negative, got scale=inf; q and k are each multiplied "
            "by its square root");
  options = {.softcap = -1};
  EXPECT_EQ(error(), "onnx_attention: softcap must be finite and not negative, got softcap=-1; 0 turns it off");
  options = {.left_window_size = -2};
  EXPECT_EQ(error(),
            "onnx_attention: left_window_size and right_window_size must be -1 or more, got "
            "left_window_size=-2, right_window_size=-1; -1 leaves a side open");
  options = {.opset = 24, .right_window_size = 0};
  EXPECT_EQ(error(),
            "onnx_attention: left_window_size and right_window_size exist from opset 25 on, got "
            "left_window_size=-1, right_window_size=0, opset=24");
  options = {.qk_matmul_output_mode = 4};
  EXPECT_EQ(error(), "onnx_attention: qk_matmul_output_mode must be 0, 1, 2 or 3, got qk_matmul_output_mode=4");
  options = {.softmax_precision = OnnxType::i64};
  EXPECT_EQ(error(),
            "onnx_attention: softmax_precision must be 1 (f32), 10 (f16), 11 (f64) or 16 (bf16), got "
            "softmax_precision=7");
}

TEST_F(OnnxErrors, WhatGoesTogether) {
  input.v = {};
  EXPECT_EQ(error(), "onnx_attention: q, k and v must be given, got q=[2, 4, 3, 8], k=[2, 2, 5, 8], v=absent");
  input.v = v_;
  input.past_key = past_k_;
  EXPECT_EQ(error(),
            "onnx_attention: past_key and past_value must be given together, got past_key=[2, 2, 1, 8], "
            "past_value=absent");
  input.past_key = {};
  options.present_value = true;
  EXPECT_EQ(error(),
            "onnx_attention: present_key and present_value must be asked for together, got present_key=0, "
            "present_value=1");
  options = {.opset = 23};
  input.nonpad_kv_seqlen = nonpad_;
  EXPECT_EQ(error(), "onnx_attention: nonpad_kv_seqlen exists from opset 24 on, got nonpad_kv_seqlen=[2], opset=23");
  options = {.present_key = true, .present_value = true};
  EXPECT_EQ(error(),
            "onnx_attention: nonpad_kv_seqlen must not be combined with past inputs or present outputs, got "
            "nonpad_kv_seqlen=[2], past_key=absent, present_key=1");
  options = {};
  input.past_key = past_k_;
  input.past_value = past_v_;
  EXPECT_EQ(error(),
            "onnx_attention: nonpad_kv_seqlen must not be combined with past inputs or present outputs, got "
            "nonpad_kv_seqlen=[2], past_key=[2, 2, 1, 8], present_key=0");
}

TEST_F(OnnxErrors, Types) {
  const Tensor<index_t, 4> integers({2, 4, 3, 8});
  input.q = integers;
  EXPECT_EQ(error<UnsupportedError>(),
            "onnx_attention: q, k and v must be f16, bf16, f32 or f64, got q=i64, k=f32, v=f32");
  const Tensor<f16, 4> half({2, 4, 3, 8});
  input.q = half;
  EXPECT_EQ(error<UnsupportedError>(),
            "onnx_attention: k and past_key must have the type of q, got q=f16, k=f32, past_key=absent");
  input.q = q_;
  const Tensor<bf16, 4> past({2, 2, 1, 6});
  input.past_key = past_k_;
  input.past_value = past;
  EXPECT_EQ(error<UnsupportedError>(),
            "onnx_attention: past_value must have the type of v, got v=f32, past_value=bf16");
  input.past_key = input.past_value = {};
  const Tensor<float, 1> lengths({2});
  input.nonpad_kv_seqlen = lengths;
  EXPECT_EQ(error<UnsupportedError>(), "onnx_attention: nonpad_kv_seqlen must be i64, got nonpad_kv_seqlen=f32");
}

TEST_F(OnnxErrors, RanksAndHeads) {
  input.k = k3_;
  EXPECT_EQ(error(),
            "onnx_attention: q, k and v must all have rank 3 or all rank 4, got q=[2, 4, 3, 8], k=[2, 5, 16], "
            "v=[2, 2, 5, 6]");
  input.k = k_;
  options.kv_num_heads = 2;
  EXPECT_EQ(error(),
            "onnx_attention: q_num_heads and kv_num_heads must not be given for rank 4 from opset 25 on, got "
            "q_num_heads=unset, kv_num_heads=2, opset=25");
  options.opset = 24;
  EXPECT_NO_THROW(onnx_attention(input, options));
  options.q_num_heads = 2;
  EXPECT_EQ(error(),
            "onnx_attention: q_num_heads and kv_num_heads must be the heads of q and k, got q_num_heads=2, "
            "kv_num_heads=2, q=[2, 4, 3, 8], k=[2, 2, 5, 8]");
  flatten();
  options.q_num_heads = {};
  EXPECT_EQ(error(),
            "onnx_attention: rank 3 needs positive q_num_heads and kv_num_heads, got q_num_heads=unset, "
            "kv_num_heads=2, q=[2, 3, 32]");
  options.q_num_heads = 4;
  options.kv_num_heads = 0;
  EXPECT_EQ(error(),
            "onnx_attention: rank 3 needs positive q_num_heads and kv_num_heads, got q_num_heads=4, "
            "kv_num_heads=0, q=[2, 3, 32]");
  options.kv_num_heads = 5;
  EXPECT_EQ(error(),
            "onnx_attention: widths must be multiples of q_num_heads and kv_num_heads, got q=[2, 3, 32], "
            "k=[2, 5, 16], v=[2, 5, 12], q_num_heads=4, kv_num_heads=5");
  options = {};
  const Tensor<float, 4> three({2, 3, 5, 8});
  input = {q_, three, v_};
  EXPECT_EQ(error(),
            "onnx_attention: the heads of q must be a positive multiple of the heads of k, got q_num_heads=4, "
            "kv_num_heads=3");
}

TEST_F(OnnxErrors, Extents) {
  const Tensor<float, 4> other_heads({2, 1, 5, 6}), other_batch({3, 2, 5, 6}), other_length({2, 2, 4, 6});
  const Tensor<float, 4> other_width({2, 2, 5, 7}), nothing({2, 2, 5, 0});
  input.v = other_heads;
  EXPECT_EQ(error(), "onnx_attention: k and v must have the same heads, got k=[2, 2, 5, 8], v=[2, 1, 5, 6]");
  input.v = other_batch;
  EXPECT_EQ(error(),
            "onnx_attention: q, k and v must have the same batch, got q=[2, 4, 3, 8], k=[2, 2, 5, 8], v=[3, 2, 5, 6]");
  input.v = other_length;
  EXPECT_EQ(error(), "onnx_attention: k and v must have the same length, got k=[2, 2, 5, 8], v=[2, 2, 4, 6]");
  input.v = nothing;
  EXPECT_EQ(error(), "onnx_attention: head sizes must be positive, got head_size=8, v_head_size=0");
  input.v = v_;
  input.k = other_width;
  EXPECT_EQ(error(), "onnx_attention: q and k must have the same head size, got q_head_size=8, k_head_size=7");
}

TEST_F(OnnxErrors, Past) {
  input.past_key = q3_;
  input.past_value = past_v_;
  EXPECT_EQ(error(), "onnx_attention: past_key must have rank 4, got past_key=[2, 3, 32]");
  const Tensor<float, 4> other({2, 2, 2, 6});
  input.past_key = past_k_;
  input.past_value = other;
  EXPECT_EQ(error(),
            "onnx_attention: past_key and past_value must be [batch, kv_num_heads, past, head_size] of k and v, "
            "got past_value=[2, 2, 2, 6], expected=[2, 2, 1, 6]");
}

TEST_F(OnnxErrors, Masks) {
  const Tensor<bool, 5> five({1, 2, 4, 3, 5});
  input.attn_mask = five;
  EXPECT_EQ(error(), "onnx_attention: attn_mask must have rank 4 or less, got attn_mask=[1, 2, 4, 3, 5]");
  const Tensor<bool, 3> by_batch({2, 3, 5});  // rank 3 is [heads, queries, keys]
  input.attn_mask = by_batch;
  EXPECT_EQ(error(),
            "onnx_attention: attn_mask must broadcast to [batch, q_num_heads, q_sequence_length, "
            "total_sequence_length], got attn_mask=[2, 3, 5], expected=[2, 4, 3, 5], opset=25; its last axis "
            "may be shorter");
  const Tensor<bool, 2> wide({3, 6}), narrow({3, 4});
  input.attn_mask = wide;
  EXPECT_EQ(error(),
            "onnx_attention: attn_mask must broadcast to [batch, q_num_heads, q_sequence_length, "
            "total_sequence_length], got attn_mask=[3, 6], expected=[2, 4, 3, 5], opset=25; its last axis may "
            "be shorter");
  input.attn_mask = narrow;
  EXPECT_NO_THROW(onnx_attention(input, options));
  options.opset = 23;
  EXPECT_EQ(error(),
            "onnx_attention: attn_mask must broadcast to [batch, q_num_heads, q_sequence_length, "
            "total_sequence_length], got attn_mask=[3, 4], expected=[2, 4, 3, 5], opset=23; a shorter last "
            "axis is padded from opset 24 on");
}

TEST_F(OnnxErrors, Lengths) {
  const Tensor<index_t, 1> three({3});
  input.nonpad_kv_seqlen = three;
  EXPECT_EQ(error(), "onnx_attention: nonpad_kv_seqlen must be [batch], got nonpad_kv_seqlen=[3], batch=2");
  input.nonpad_kv_seqlen = nonpad_;
  nonpad_(1) = 6;
  EXPECT_EQ(error(),
            "onnx_attention: nonpad_kv_seqlen must be in [0, kv_sequence_length], got nonpad_kv_seqlen=6, "
            "batch_index=1, kv_sequence_length=5");
  nonpad_(1) = -1;
  EXPECT_EQ(error(),
            "onnx_attention: nonpad_kv_seqlen must be in [0, kv_sequence_length], got nonpad_kv_seqlen=-1, "
            "batch_index=1, kv_sequence_length=5");
  nonpad_(1) = 4;
  const Tensor<bool, 2> narrow({3, 3});
  input.attn_mask = narrow;
  EXPECT_EQ(error(),
            "onnx_attention: attn_mask must reach the longest nonpad_kv_seqlen, got attn_mask_length=3, "
            "nonpad_kv_seqlen=4, batch_index=1");
}

// A valid node: B=2, H=3, S=4, D=8 with 50 positions.
class OnnxRotaryErrors : public testing::Test {
 protected:
  template <class E = ShapeError>
  std::string error() const {
    return error_of<E>([&] { onnx_rotary_embedding(input, options); });
  }

  Tensor<float, 4> x_{{2, 3, 4, 8}};
  Tensor<float, 3> x3_{{2, 4, 24}};
  Tensor<float, 2> cache_{{50, 4}};
  Tensor<index_t, 2> ids_{{2, 4}};
  OnnxRotaryInput input{x_, cache_, cache_, ids_};
  OnnxRotaryOptions options;
};

TEST_F(OnnxRotaryErrors, Inputs) {
  EXPECT_NO_THROW(onnx_rotary_embedding(input, options));
  input.sin_cache = {};
  EXPECT_EQ(error(),
            "onnx_rotary_embedding: x, cos_cache and sin_cache must be given, got x=[2, 3, 4, 8], "
            "cos_cache=[50, 4], sin_cache=absent");
  const Tensor<double, 2> doubles({50, 4});
  input.sin_cache = doubles;
  EXPECT_EQ(error<UnsupportedError>(),
            "onnx_rotary_embedding: x, cos_cache and sin_cache must be of one type, f16, bf16 "
            "or f32, got x=f32, cos_cache=f32, sin_cache=f64");
  input.sin_cache = cache_;
  input.position_ids = cache_;
  EXPECT_EQ(error<UnsupportedError>(), "onnx_rotary_embedding: position_ids must be i64, got position_ids=f32");
}

TEST_F(OnnxRotaryErrors, Heads) {
  input.x = cache_;
  EXPECT_EQ(error(), "onnx_rotary_embedding: x must have rank 3 or 4, got x=[50, 4]");
  input.x = x3_;
  EXPECT_EQ(error(),
            "onnx_rotary_embedding: rank 3 needs a positive num_heads that divides the width, got "
            "num_heads=unset, x=[2, 4, 24]");
  options.num_heads = 5;
  EXPECT_EQ(error(),
            "onnx_rotary_embedding: rank 3 needs a positive num_heads that divides the width, got num_heads=5, "
            "x=[2, 4, 24]");
  options.num_heads = 8;
  EXPECT_EQ(error(), "onnx_rotary_embedding: the head size must be even and positive, got head_size=3, x=[2, 4, 24]");
  input.x = x_;
  EXPECT_EQ(error(), "onnx_rotary_embedding: num_heads must be the heads of x, got num_heads=8, x=[2, 3, 4, 8]");
  options.num_heads = {};
  options.rotary_embedding_dim = 10;
  EXPECT_EQ(error(),
            "onnx_rotary_embedding: rotary_embedding_dim must be even and in [0, head_size], got "
            "rotary_embedding_dim=10, head_size=8; 0 turns the whole head");
  options.rotary_embedding_dim = 3;
  EXPECT_EQ(error(),
            "onnx_rotary_embedding: rotary_embedding_dim must be even and in [0, head_size], got "
            "rotary_embedding_dim=3, head_size=8; 0 turns the whole head");
}

TEST_F(OnnxRotaryErrors, CachesAndPositions) {
  options.rotary_embedding_dim = 4;
  EXPECT_EQ(error(),
            "onnx_rotary_embedding: caches must be [positions, r/2] with position_ids, else [batch, "
            "sequence_length, r/2], got cos_cache=[50, 4], sin_cache=[50, 4], position_ids=[2, 4], "
            "x=[2, 3, 4, 8], r=4");
  options.rotary_embedding_dim = 0;
  input.position_ids = {};
  EXPECT_EQ(error(),
            "onnx_rotary_embedding: caches must be [positions, r/2] with position_ids, else [batch, "
            "sequence_length, r/2], got cos_cache=[50, 4], sin_cache=[50, 4], position_ids=absent, "
            "x=[2, 3, 4, 8], r=8");
  const Tensor<index_t, 2> other({2, 3});
  input.position_ids = other;
  EXPECT_EQ(error(),
            "onnx_rotary_embedding: position_ids must be [batch, sequence_length], got position_ids=[2, 3], "
            "x=[2, 3, 4, 8]");
  input.position_ids = ids_;
  ids_(1, 2) = 50;
  EXPECT_EQ(error(),
            "onnx_rotary_embedding: position_ids must be in [0, positions), got position_id=50, batch_index=1, "
            "token=2, positions=50");
  ids_(1, 2) = -1;
  EXPECT_EQ(error(),
            "onnx_rotary_embedding: position_ids must be in [0, positions), got position_id=-1, batch_index=1, "
            "token=2, positions=50");
}

}  // namespace
}  // namespace multihead
