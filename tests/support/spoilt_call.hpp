// A valid call of the core, to be spoilt in one point: what it says then, and that it has written nothing.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "multihead/error.hpp"
#include "tests/support/attention_problem.hpp"
#include "tests/support/edit_view.hpp"

namespace multihead::test {

/// What a call throws, or "nothing" when it does not.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const UnsupportedError& error) {
    return std::string("UnsupportedError ") + error.what();
  } catch (const ShapeError& error) {
    return std::string("ShapeError ") + error.what();
  }
  return "nothing";
}

inline TensorView<const index_t, 1> view_of(const std::vector<index_t>& list) {
  return {list.data(), {static_cast<index_t>(list.size())}};
}

/// A valid call of B2 Sq3 Skv5 H4 Hkv2 D8 Dv6, to be spoilt in one point.
class AttentionErrors : public testing::Test {
 protected:
  AttentionErrors() {
    input = problem.input();
    options = problem.options();
    output = {.out = result.out.out(),
              .probs = result.probs.out(),
              .row_max = result.row_max.out(),
              .row_sum = result.row_sum.out(),
              .lse = result.lse.out()};
    saved = problem.forward(core_engine());
    backward = {problem.q.in(),     problem.k.in(),     problem.v.in(),    saved.out.in(),
                saved.row_max.in(), saved.row_sum.in(), problem.dout.in(), problem.dlse.in()};
    gradients = {.dq = grads.dq.out(),
                 .dk = grads.dk.out(),
                 .dv = grads.dv.out(),
                 .dbias = grads.dbias.broadcast_out(),
                 .dsinks = grads.dsinks.out(),
                 .dslopes = grads.dslopes.out()};
  }

  /// Makes q, k, v and the outputs those of two packed sequences: 2 + 1 queries, 1 + 4 keys, one batch.
  void pack() {
    for (auto* view : {&input.q, &input.k, &input.v}) set_extent(*view, 0, 1);
    for (auto* view : {&output.row_max, &output.row_sum, &output.lse}) set_extent(*view, 0, 1);
    set_extent(output.out, 0, 1);
    output.probs = {};
    options.bias = {};
    options.mask.visible = {};
    options.mask.diagonal_offset = {};
    options.packed = {view_of(cu_q), view_of(cu_kv)};
  }

  /// Makes k and v pages of 5 keys, two for each sequence.
  void page() {
    output.probs = {};
    options.bias = {};
    options.mask.visible = {};
    options.page_table = {pages.data(), {2, 2}};
    options.mask.seqlen_kv = view_of(lengths);
  }

  /// Spoils the call, expects forward to refuse it with `text` before it writes anything, and repairs the call.
  template <class Change>
  void refuse(Change change, const std::string& text) {
    const auto valid = std::tuple(input, output, options, cu_q, cu_kv, pages, lengths);
    change();
    EXPECT_EQ(error_of([&] { attention_forward(input, output, options); }), text);
    std::tie(input, output, options, cu_q, cu_kv, pages, lengths) = valid;
    EXPECT_TRUE(untouched(result.out) && untouched(result.probs) && untouched(result.lse)) << text;
  }
  template <class Change>
  void refuse_backward(Change change, const std::string& text) {
    const auto valid = std::tuple(backward, gradients, options);
    change();
    EXPECT_EQ(error_of([&] { attention_backward(backward, gradients, options); }), text);
    std::tie(backward, gradients, options) = valid;
    EXPECT_TRUE(untouched(grads.dq) && untouched(grads.dk) && untouched(grads.dv) && untouched(grads.dbias)) << text;
  }
  template <int R>
  static bool untouched(const AnyTensor<R>& tensor) {
    return std::all_of(tensor.bytes().begin(), tensor.bytes().end(), [](auto byte) { return byte == 0xff; });
  }

  AttentionProblem problem{{.batch = 2,
                            .seqlen_q = 3,
                            .seqlen_kv = 5,
                            .num_heads = 4,
                            .head_dim = 8,
                            .head_dim_v = 6,
                            .bias = Bias::full,
                            .alibi = true,
                            .visible = Visible::full,
                            .sinks = Sinks::given,
                            .kv_heads = KvHeads::grouped,
                            .probs = Probs::all,
                            .dlse = true},
                           run_seed()};
  ForwardResult saved, result{AnyTensor<4>(DType::f32, {2, 3, 4, 6}), AnyTensor<4>(DType::f32, {2, 4, 3, 5}),
                              AnyTensor<3>(DType::f32, {2, 4, 3}), AnyTensor<3>(DType::f32, {2, 4, 3}),
                              AnyTensor<3>(DType::f32, {2, 4, 3})};
  BackwardResult grads{AnyTensor<4>(DType::f32, {2, 3, 4, 8}), AnyTensor<4>(DType::f32, {2, 5, 2, 8}),
                       AnyTensor<4>(DType::f32, {2, 5, 2, 6}), AnyTensor<4>(DType::f32, {2, 4, 3, 5}),
                       AnyTensor<1>(DType::f32, {4}),          AnyTensor<1>(DType::f32, {4})};
  AttentionInput input;
  AttentionOutput output;
  AttentionOptions options;
  AttentionBackwardInput backward;
  AttentionGradients gradients;
  std::vector<index_t> cu_q{0, 2, 3}, cu_kv{0, 1, 5}, pages{0, 1, 1, 0}, lengths{7, 2}, one{0}, two{0, 1}, minus{0, -1},
      extra;
};

}  // namespace multihead::test
