// Options at the ends of their types: diagonals and windows over all of 64 bits, scales, softcaps and slopes over all
// that the arithmetic holds. What it does not hold is refused: tests/unit/attention_errors.cpp.
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/error_rule.hpp"
#include "tests/support/small_attention.hpp"

namespace multihead::test {
namespace {

constexpr index_t kMost = std::numeric_limits<index_t>::max(), kLeast = std::numeric_limits<index_t>::min();

TEST(AttentionWide, AnyDiagonalAndWindow) {
  using Side = std::optional<index_t>;
  for (const index_t queries : {1, 30}) {
    for (const Causal causal : {Causal::off, Causal::at_offset}) {
      for (const Side left : {Side(), Side(0), Side(3), Side(kMost)}) {
        for (const Side right : {Side(), Side(0), Side(kMost - 1), Side(kMost)}) {
          AttentionProblem problem({.batch = 1,
                                    .seqlen_q = queries,
                                    .seqlen_kv = 40,
                                    .num_heads = 4,
                                    .head_dim = 2,
                                    .head_dim_v = 2,
                                    .causal = causal,
                                    .offsets = Offsets::given,
                                    .window_left = left,
                                    .window_right = right,
                                    .kv_heads = KvHeads::grouped,
                                    .probs = Probs::all},
                                   run_seed());
          for (const index_t offset : {kLeast, kLeast + 1, -(index_t{1} << 62), -(index_t{1} << 61), index_t{-31},
                                       index_t{-30}, index_t{-29}, index_t{0}, index_t{10}, index_t{39}, index_t{40},
                                       index_t{43}, index_t{1} << 61, index_t{1} << 62, kMost - 1, kMost}) {
            problem.offsets = {offset};
            SCOPED_TRACE("offset " + std::to_string(offset));
            ASSERT_NO_FATAL_FAILURE(expect_core_exact(problem));
          }
        }
      }
    }
  }
}

TEST(AttentionWide, ADiagonalFarAwayHidesNothing) {
  for (const index_t offset : {index_t{1} << 61, kMost}) {
    const Means seen = means(1, {1, 2, 6}, {.mask = {.causal = Causal::at_offset, .diagonal_offset = {&offset, {1}}}});
    expect_near(seen.out, {3});
  }
}

// What a scale or a cap does to scores of ordinary size.
TEST(AttentionWide, AnyScale) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double scale : {1.2e-38, -1e-30, 1e-10, 1e10, -1e30, 1e38}) {
      for (const index_t queries : {1, 30}) {
        AttentionProblem problem({.batch = 1, .seqlen_q = queries, .seqlen_kv = 140, .num_heads = 2, .dtype = dtype},
                                 run_seed());
        // Scores of size 1.
        const double root = 1 / std::sqrt(std::abs(scale) < 1 ? 1.0 : std::abs(scale));
        problem.q.generate([&, random = Random(run_seed())](auto) mutable { return root * random.uniform(); });
        problem.k.generate([&, random = Random(run_seed() + 1)](auto) mutable { return root * random.uniform(); });
        const Engine core = core_engine(), reference = reference_engine<double>();
        const auto with_scale = [&](const Engine& engine) {
          return problem.forward({[&](const auto& input, const auto& output, AttentionOptions options) {
                                    options.scale = scale;
                                    engine.forward(input, output, options);
                                  },
                                  {}});
        };
        const auto x = with_scale(core).out.values(), truth = with_scale(reference).out.values();
        for (std::size_t n = 0; n < x.size(); ++n) ASSERT_NEAR(x[n], truth[n], 1e-5) << scale;
      }
    }
  }
}

TEST(AttentionWide, AnySoftcap) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double softcap : {1e-300, 1.2e-38, 1e-30, 1e-3, 1e10, 3.4e38, 1.7e308}) {
      if (dtype == DType::f32 && (softcap < 1e-38 || softcap > 1e39)) continue;
      for (const index_t queries : {1, 30}) {
        AttentionProblem problem({.batch = 1,
                                  .seqlen_q = queries,
                                  .seqlen_kv = 140,
                                  .num_heads = 2,
                                  .dtype = dtype,
                                  .values = Values::peaked,
                                  .softcap = softcap},
                                 run_seed());
        const ForwardResult result = problem.forward(core_engine());
        const auto x = result.out.values(), truth = problem.forward(reference_engine<long double>()).out.values();
        for (std::size_t n = 0; n < x.size(); ++n) ASSERT_NEAR(x[n], truth[n], 1e-5) << softcap;
        const auto dq = problem.backward(core_engine(), result).dq.values();
        for (const double value : dq) ASSERT_TRUE(std::isfinite(value)) << softcap;
      }
    }
  }
}

TEST(AttentionWide, SlopesUpToTheLargestProduct) {
  const auto slope = tensor({1}, {1e38f});
  const Means result = means(1, {1, 2, 4}, {.alibi_slopes = slope.view()});  // distances 2, 1, 0
  expect_near(result.out, {4});
}

}  // namespace
}  // namespace multihead::test
