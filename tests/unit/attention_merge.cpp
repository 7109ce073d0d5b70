// Two partial results over disjoint keys, joined by their lse.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "multihead/threads.hpp"
#include "reference/attention.hpp"
#include "tests/support/attention_problem.hpp"
#include "tests/support/edit_view.hpp"
#include "tests/support/small_attention.hpp"

namespace multihead::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The problem with keys [begin, end) alone.
AttentionProblem with_keys(const AttentionProblem& whole, index_t begin, index_t end) {
  AttentionProblem part = whole;
  part.config.seqlen_kv = end - begin;
  const auto cut = [&](const AnyTensor<4>& from) {
    auto shape = from.shape();
    shape[1] = end - begin;
    AnyTensor<4> to(from.dtype(), shape);
    to.generate([&](auto at) { return at[1] += begin, from.get(at); });
    return to;
  };
  part.k = cut(whole.k);
  part.v = cut(whole.v);
  return part;
}

TEST(AttentionMerge, HalvesAreTheWhole) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const index_t split : {0, 1, 30, 99, 100}) {
      const AttentionProblem whole({.seqlen_q = 9, .seqlen_kv = 100, .dtype = dtype}, run_seed());
      const ForwardResult a = with_keys(whole, 0, split).forward(core_engine());
      const ForwardResult b = with_keys(whole, split, 100).forward(core_engine());
      const ForwardResult expected = whole.forward(core_engine());
      AnyTensor<4> out(dtype, a.out.shape());
      AnyTensor<3> lse(dtype, a.lse.shape());
      attention_merge({a.out.in(), a.lse.in()}, {b.out.in(), b.lse.in()}, {.out = out.out(), .lse = lse.out()});
      const double tolerance = dtype == DType::f64 ? 1e-14 : 2e-6;
      for (index_t n = 0; n < out.size(); ++n) {
        ASSERT_NEAR(out.get(out.index_of(n)), expected.out.get(out.index_of(n)), tolerance) << "split " << split;
      }
      for (index_t n = 0; n < lse.size(); ++n) {
        ASSERT_NEAR(lse.get(lse.index_of(n)), expected.lse.get(lse.index_of(n)), 4 * tolerance);
      }
      if (split % 100 == 0) {  // an empty part changes no bit
        EXPECT_EQ(out.values(), expected.out.values());
      }

      // In place, and on threads.
      Threads threads(3);
      AnyTensor<4> first = a.out, second = b.out;
      AnyTensor<3> first_lse = a.lse, second_lse = b.lse;
      attention_merge({first.in(), first_lse.in()}, {b.out.in(), b.lse.in()},
                      {.out = first.out(), .lse = first_lse.out()}, &threads);
      EXPECT_EQ(first.values(), out.values());
      EXPECT_EQ(first_lse.values(), lse.values());
      attention_merge({a.out.in(), a.lse.in()}, {second.in(), second_lse.in()},
                      {.out = second.out(), .lse = second_lse.out()});
      EXPECT_EQ(second.values(), out.values());
      EXPECT_EQ(second_lse.values(), lse.values());
    }
  }
}

TEST(AttentionMerge, EmptyPartsAreNeverRead) {
  AnyTensor<4> a(DType::f32, {1, 3, 1, 2}), b = a, out = a;
  AnyTensor<3> lse_a(DType::f32, {1, 1, 3}), lse_b = lse_a, lse = lse_a;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  a.generate([&](auto at) { return at[1] == 0 ? 3.0 : nan; });
  b.generate([&](auto at) { return at[1] == 1 ? 5.0 : nan; });
  lse_a.generate([&](auto at) { return at[2] == 0 ? 700.0 : -kInfinity; });
  lse_b.generate([&](auto at) { return at[2] == 1 ? -700.0 : -kInfinity; });
  attention_merge({a.in(), lse_a.in()}, {b.in(), lse_b.in()}, {.out = out.out(), .lse = lse.out()});
  EXPECT_EQ(out.values(), (std::vector<double>{3, 3, 5, 5, 0, 0}));
  EXPECT_EQ(lse.values(), (std::vector<double>{700, -700, -kInfinity}));
}

TEST(AttentionMerge, FarApartAndNotANumber) {
  AnyTensor<4> a(DType::f32, {1, 2, 1, 1}), b = a, out = a;
  AnyTensor<3> lse_a(DType::f32, {1, 1, 2}), lse_b = lse_a, lse = lse_a;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  a.generate([](auto) { return 2.0; });
  b.generate([](auto) { return 9.0; });
  lse_a.generate([&](auto at) { return at[2] == 0 ? 1e30 : nan; });
  lse_b.generate([](auto) { return -1e30; });
  attention_merge({a.in(), lse_a.in()}, {b.in(), lse_b.in()}, {.out = out.out(), .lse = lse.out()});
  EXPECT_EQ(out.get({0, 0, 0, 0}), 2);
  EXPECT_TRUE(std::isnan(out.get({0, 1, 0, 0})) && std::isnan(lse.get({0, 0, 1})));
}

TEST(AttentionMerge, ErrorsNameRuleAndNumbers) {
  AnyTensor<4> a(DType::f32, {2, 3, 4, 5}), out = a;
  AnyTensor<3> lse(DType::f32, {2, 4, 3});
  const PartialAttention part{a.in(), lse.in()};
  const auto refuse = [&](auto change, const std::string& text) {
    PartialAttention first = part, second = part;
    AttentionOutput output{.out = out.out()};
    change(first, second, output);
    std::string said = "nothing";
    try {
      attention_merge(first, second, output);
    } catch (const UnsupportedError& error) {
      said = std::string("UnsupportedError ") + error.what();
    } catch (const ShapeError& error) {
      said = std::string("ShapeError ") + error.what();
    }
    EXPECT_EQ(said, text);
  };
  refuse([](auto& x, auto&, auto&) { x.lse = {}; },
         "ShapeError attention_merge: out and lse must be given, got a.out=given, a.lse=absent");
  refuse([](auto& x, auto&, auto&) { set_dtype(x.out, DType::bf16); },
         "UnsupportedError attention_merge: out must be f32 or f64, got a.out=bf16");
  refuse([](auto& x, auto&, auto&) { set_dtype(x.lse, DType::f64); },
         "UnsupportedError attention_merge: lse must have the dtype of out, got a.lse=f64, a.out=f32");
  refuse(
      [](auto& x, auto&, auto&) {
        x.lse = {x.lse.data(), x.lse.dtype(), {2, 3, 4}, x.lse.stride()};
      },
      "ShapeError attention_merge: lse must be [B, H, Sq] of out [B, Sq, H, Dv], got a.lse=[2, 3, 4], a.out=[2, 3, 4, "
      "5]");
  refuse([](auto&, auto& y, auto&) { y.out = {}; },
         "ShapeError attention_merge: b.out must be given, got b.out=absent");
  refuse([](auto&, auto& y, auto&) { set_extent(y.out, 3, 6); },
         "ShapeError attention_merge: b.out must have the shape of a.out, got b.out=[2, 3, 4, 6], a.out=[2, 3, 4, 5]");
  refuse([](auto&, auto& y, auto&) { set_dtype(y.lse, DType::f64); },
         "UnsupportedError attention_merge: b.lse must have the dtype of a.lse, got b.lse=f64, a.lse=f32");
  refuse([](auto&, auto&, auto& o) { set_extent(o.out, 0, 1); },
         "ShapeError attention_merge: output.out must have the shape of a.out, got output.out=[1, 3, 4, 5], "
         "a.out=[2, 3, 4, 5]");
  refuse([&](auto&, auto&, auto& o) { o.row_sum = lse.out(); },
         "ShapeError attention_merge: only out and lse can be merged, got probs=absent, row_max=absent, row_sum=given");
}

}  // namespace
}  // namespace multihead::test
