// Sizes and strides: odd widths, nothing at all, views that are not packed, offsets past 2^31, packed sequences.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/support/edit_view.hpp"
#include "tests/support/error_rule.hpp"
#include "tests/support/small_attention.hpp"

namespace multihead::test {
namespace {

// pytorch/pytorch PR#187506: other layouts than [B, S, H, D] give the same bits as packed copies.
TEST(AttentionShapes, LayoutsGiveTheSameBits) {
  const AttentionConfig base{.seqlen_q = 29,
                             .seqlen_kv = 37,
                             .num_heads = 4,
                             .head_dim = 19,
                             .head_dim_v = 11,
                             .kv_heads = KvHeads::grouped,
                             .probs = Probs::all};
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    AttentionConfig config = base;
    config.dtype = dtype;
    const AttentionProblem packed(config, run_seed());
    const auto expected = packed.forward(core_engine());
    const auto expected_gradients = packed.backward(core_engine(), expected);
    for (const Arrangement arrangement : {Arrangement::bhsd, Arrangement::gaps}) {
      config.arrangement = arrangement;
      const AttentionProblem problem(config, run_seed());
      const auto result = problem.forward(core_engine());
      const auto gradients = problem.backward(core_engine(), result);
      EXPECT_EQ(result.out.values(), expected.out.values());
      EXPECT_EQ(result.probs.values(), expected.probs.values());
      EXPECT_EQ(gradients.dq.values(), expected_gradients.dq.values());
      EXPECT_EQ(gradients.dk.values(), expected_gradients.dk.values());
      EXPECT_EQ(gradients.dv.values(), expected_gradients.dv.values());
      EXPECT_TRUE(result.out.outside_untouched() && gradients.dq.outside_untouched());
    }
  }
}

TEST(AttentionShapes, ExpandedAndReversedAxes) {
  // One kv head shown as four by stride 0 equals one kv head that four query heads share.
  AttentionConfig config{.seqlen_q = 9, .seqlen_kv = 13, .num_heads = 4, .kv_heads = KvHeads::one};
  AttentionProblem shared(config, run_seed());
  const auto expected = shared.forward(core_engine()).out.values();
  InputView<4> k = shared.k.in(), v = shared.v.in();
  for (InputView<4>* view : {&k, &v}) set_extent(*view, 2, 4), set_stride(*view, 2, 0);
  AnyTensor<4> out(DType::f32, {2, 9, 4, 8});
  attention_forward({.q = shared.q.in(), .k = k, .v = v}, {.out = out.out()});
  EXPECT_EQ(out.values(), expected);

  // Keys and values told backwards, by negative strides, are the same keys in another order.
  AttentionProblem forwards({.seqlen_q = 9, .seqlen_kv = 13, .bias = Bias::full, .visible = Visible::full}, run_seed());
  AttentionProblem backwards = forwards;
  const auto reversed = [](auto index, int axis, index_t extent) {
    index[axis] = extent - 1 - index[axis];
    return index;
  };
  backwards.k.generate([&](auto index) { return forwards.k.get(reversed(index, 1, 13)); });
  backwards.v.generate([&](auto index) { return forwards.v.get(reversed(index, 1, 13)); });
  backwards.bias.generate([&](auto index) { return forwards.bias.get(reversed(index, 3, 13)); });
  backwards.visible.generate([&](auto index) { return forwards.visible.get(reversed(index, 3, 13)); });
  const auto flip = [](auto view, int axis) {
    const index_t last = (view.shape(axis) - 1) * view.stride(axis) * dtype_bytes(view.dtype());
    view = {static_cast<const char*>(view.data()) + last, view.dtype(), view.shape(), view.stride()};
    set_stride(view, axis, -view.stride(axis));
    return view;
  };
  AttentionOptions options = forwards.options();
  options.bias = flip(backwards.bias.broadcast(), 3);
  options.mask.visible = flip(backwards.visible.broadcast(), 3);
  AnyTensor<4> flipped(DType::f32, {2, 9, 4, 8});
  attention_forward({.q = forwards.q.in(), .k = flip(backwards.k.in(), 1), .v = flip(backwards.v.in(), 1)},
                    {.out = flipped.out()}, options);
  EXPECT_EQ(flipped.values(), forwards.forward(core_engine()).out.values());
}

TEST(AttentionShapes, ABroadcastMaskIsItsExpandedCopy) {
  for (const auto& [bias, visible] :
       {std::pair{Bias::rank2, Visible::per_key}, std::pair{Bias::per_query, Visible::rank2},
        std::pair{Bias::per_head, Visible::per_query}, std::pair{Bias::per_key, Visible::full}}) {
    AttentionProblem broadcast({.seqlen_q = 26, .seqlen_kv = 70, .bias = bias, .visible = visible}, run_seed());
    AttentionProblem expanded = broadcast;
    const auto expand = [](const AnyTensor<4>& from, AnyTensor<4>& to) {
      to = AnyTensor<4>(from.dtype(), {2, 4, 26, 70});
      to.generate([&](auto index) {
        for (int axis = 0; axis < 4; ++axis) index[axis] = from.shape()[axis] == 1 ? 0 : index[axis];
        return from.get(index);
      });
    };
    expand(broadcast.bias, expanded.bias);
    expand(broadcast.visible, expanded.visible);
    EXPECT_EQ(broadcast.forward(core_engine()).out.values(), expanded.forward(core_engine()).out.values());
  }
}

// 66RING/tiny-flash-attention#12: lengths and widths that no tile divides, forward and backward.
TEST(AttentionShapes, EveryWidthAtEveryLength) {
  for (const index_t width : {1, 3, 7, 63, 65, 80, 257, 320}) {
    for (const index_t length : {1, 2, 31, 33, 65}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        expect_core_exact(AttentionProblem({.batch = 1,
                                            .seqlen_q = length,
                                            .seqlen_kv = length,
                                            .num_heads = 2,
                                            .head_dim = width,
                                            .head_dim_v = width,
                                            .dtype = dtype},
                                           run_seed()));
      }
    }
  }
}

// pytorch/pytorch#141218: nothing in, nothing out; an empty set of keys gives rows of zeros.
TEST(AttentionShapes, ZeroSizes) {
  for (const auto& [batch, queries, keys] : {std::array<index_t, 3>{0, 4, 4}, {2, 0, 4}, {2, 4, 0}, {0, 0, 0}}) {
    AttentionProblem problem(
        {.batch = batch, .seqlen_q = queries, .seqlen_kv = keys, .causal = Causal::bottom_right, .probs = Probs::all},
        run_seed());
    expect_core_exact(problem);
  }
  EXPECT_EQ(means(2, {}, {}).out, (std::vector<float>{0, 0}));
}

// onnx/onnx PR#7274: query head h reads kv head h / (H / Hkv): repeated in groups, not tiled.
TEST(AttentionShapes, GroupedHeadsRepeat) {
  const Tensor<float, 4> q({1, 1, 4, 1}), k({1, 1, 2, 1});
  const auto v = tensor({1, 1, 2, 1}, {1, 2});
  Tensor<float, 4> out({1, 1, 4, 1});
  const AttentionInput input{q.view(), k.view(), v.view()};
  attention_forward(input, {.out = out.view()});
  EXPECT_EQ(list(out), (std::vector<float>{1, 1, 2, 2}));
  const std::vector<index_t> uneven{1, 0, 0, 1};
  attention_forward(input, {.out = out.view()}, {.kv_head_of = {uneven.data(), {4}}});
  EXPECT_EQ(list(out), (std::vector<float>{2, 1, 1, 2}));
  for (const KvHeads heads : {KvHeads::equal, KvHeads::one, KvHeads::grouped, KvHeads::mapped}) {
    expect_core_exact(AttentionProblem({.seqlen_q = 5, .seqlen_kv = 70, .kv_heads = heads}, run_seed()));
  }
}

// pytorch/pytorch PR#186786: what is packed ends at the last offset.
TEST(AttentionShapes, PackedSequencesAreTheirOwn) {
  const std::vector<index_t> cu{0, 2, 5};
  const Tensor<float, 4> zero({1, 5, 1, 1});
  const auto v = tensor({1, 5, 1, 1}, {1, 3, 10, 20, 60});
  Tensor<float, 4> out({1, 5, 1, 1});
  const Packed packed{.cu_seqlens_q = {cu.data(), {3}}, .cu_seqlens_kv = {cu.data(), {3}}};
  attention_forward({.q = zero.view(), .k = zero.view(), .v = v.view()}, {.out = out.view()}, {.packed = packed});
  expect_near(list(out), {2, 2, 30, 30, 30});
  attention_forward({.q = zero.view(), .k = zero.view(), .v = v.view()}, {.out = out.view()},
                    {.mask = {.causal = Causal::bottom_right}, .packed = packed});
  expect_near(list(out), {1, 2, 10, 15, 30});
}

// microsoft/onnxruntime PR#20921: rows 2^28 elements apart, so that the ninth lies past 2^31. The file is a hole.
TEST(AttentionShapes, OffsetsPast32Bits) {
  constexpr index_t kStep = index_t{1} << 28, kRows = 9, kWidth = 4;
  constexpr std::size_t kBytes = (kRows - 1) * kStep * sizeof(float) + 4096;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  TensorView<float, 4> far(static_cast<float*>(memory), {1, kRows, 1, kWidth}, {0, kStep, kStep, 1});
  AttentionProblem near(
      {.batch = 1, .seqlen_q = kRows, .seqlen_kv = kRows, .num_heads = 1, .head_dim = kWidth, .head_dim_v = kWidth},
      run_seed());
  near.q.generate([&](auto index) {
    const double value = Random(static_cast<std::uint64_t>(index[1] * kWidth + index[3])).uniform();
    far(0, index[1], 0, index[3]) = static_cast<float>(value);
    return value;
  });
  near.k = near.v = near.dout = near.q;
  const auto expected = near.forward(core_engine());
  const auto expected_gradients = near.backward(core_engine(), expected);

  AnyTensor<4> out(DType::f32, {1, kRows, 1, kWidth}), dq = out, dk = out, dv = out;
  attention_forward({.q = far, .k = far, .v = far}, {.out = out.out()});
  EXPECT_EQ(out.values(), expected.out.values());
  attention_backward({.q = far,
                      .k = far,
                      .v = far,
                      .out = expected.out.in(),
                      .row_max = expected.row_max.in(),
                      .row_sum = expected.row_sum.in(),
                      .dout = far},
                     {.dq = dq.out(), .dk = dk.out(), .dv = dv.out()});
  EXPECT_EQ(dq.values(), expected_gradients.dq.values());
  EXPECT_EQ(dk.values(), expected_gradients.dk.values());
  EXPECT_EQ(dv.values(), expected_gradients.dv.values());

  // Written there as well.
  attention_forward({.q = near.q.in(), .k = near.k.in(), .v = near.v.in()}, {.out = far});
  for (index_t i = 0; i < kRows; ++i) {
    for (index_t d = 0; d < kWidth; ++d) EXPECT_EQ(far(0, i, 0, d), expected.out.get({0, i, 0, d}));
  }
  munmap(memory, kBytes);
}

}  // namespace
}  // namespace multihead::test
