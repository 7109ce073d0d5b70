// Bits that must not depend on anything: threads, batch mates, later keys, what else is asked for.
#include <gtest/gtest.h>

#include <optional>

#include "multihead/threads.hpp"
#include "tests/support/attention_problem.hpp"
#include "tests/support/bitwise_configs.hpp"

namespace multihead::test {
namespace {

struct Results {
  ForwardResult forward;
  BackwardResult backward;
};

Results run(const AttentionProblem& problem) {
  Results results;
  results.forward = problem.forward(core_engine());
  if (problem.pages == 0) results.backward = problem.backward(core_engine(), results.forward);
  return results;
}

void expect_same_forward(const ForwardResult& a, const ForwardResult& b, const std::string& what) {
  EXPECT_EQ(a.out.bytes(), b.out.bytes()) << what;
  EXPECT_EQ(a.row_max.bytes(), b.row_max.bytes()) << what;
  EXPECT_EQ(a.row_sum.bytes(), b.row_sum.bytes()) << what;
  EXPECT_EQ(a.lse.bytes(), b.lse.bytes()) << what;
}

void expect_same_bits(const Results& a, const Results& b, const std::string& what) {
  expect_same_forward(a.forward, b.forward, what);
  EXPECT_EQ(a.forward.probs.bytes(), b.forward.probs.bytes()) << what;
  EXPECT_EQ(a.backward.dq.bytes(), b.backward.dq.bytes()) << what;
  EXPECT_EQ(a.backward.dk.bytes(), b.backward.dk.bytes()) << what;
  EXPECT_EQ(a.backward.dv.bytes(), b.backward.dv.bytes()) << what;
  EXPECT_EQ(a.backward.dbias.bytes(), b.backward.dbias.bytes()) << what;
  EXPECT_EQ(a.backward.dsinks.bytes(), b.backward.dsinks.bytes()) << what;
  EXPECT_EQ(a.backward.dslopes.bytes(), b.backward.dslopes.bytes()) << what;
}

class AttentionBitwise : public testing::TestWithParam<NamedConfig> {
 protected:
  AttentionProblem problem_{GetParam().config, run_seed()};
};

TEST_P(AttentionBitwise, AnyThreadCount) {
  const Results expected = run(problem_);
  for (const int count : {1, 2, 5, 16}) {
    Threads threads(count);
    problem_.threads = &threads;
    for (int repeat = 0; repeat < 3; ++repeat) {
      expect_same_bits(run(problem_), expected, std::to_string(count) + " threads, " + problem_.config.text());
    }
  }
}

TEST_P(AttentionBitwise, ProbabilitiesAskedForOrNot) {
  const ForwardResult expected = problem_.forward(core_engine());
  problem_.config.probs = problem_.config.probs == Probs::none ? Probs::all : Probs::none;
  expect_same_forward(problem_.forward(core_engine()), expected, problem_.config.text());

  AnyTensor<4> out = expected.out;
  out.generate([](auto) { return 77.0; });
  attention_forward(problem_.input(), {.out = out.out()}, problem_.options());
  EXPECT_EQ(out.bytes(), expected.out.bytes()) << problem_.config.text();
}

TEST_P(AttentionBitwise, GradientsAskedForOneByOne) {
  if (problem_.pages > 0) GTEST_SKIP() << "paged keys have no backward";
  const Results expected = run(problem_);
  const ForwardResult& saved = expected.forward;
  AttentionBackwardInput from{problem_.q.in(),    problem_.k.in(),    problem_.v.in(),   saved.out.in(),
                              saved.row_max.in(), saved.row_sum.in(), problem_.dout.in()};
  if (problem_.dlse) from.dlse = problem_.dlse.in();
  const auto alone = [&](auto gradient, auto choose) {  // by value: a fresh buffer of the same layout
    if (!gradient) return;
    const auto bytes = gradient.bytes();
    gradient.generate([](auto) { return 77.0; });
    attention_backward(from, choose(gradient), problem_.options());
    EXPECT_EQ(gradient.bytes(), bytes) << problem_.config.text();
  };
  alone(expected.backward.dq, [](auto& x) { return AttentionGradients{.dq = x.out()}; });
  alone(expected.backward.dk, [](auto& x) { return AttentionGradients{.dk = x.out()}; });
  alone(expected.backward.dv, [](auto& x) { return AttentionGradients{.dv = x.out()}; });
  alone(expected.backward.dbias, [](auto& x) { return AttentionGradients{.dbias = x.broadcast_out()}; });
  alone(expected.backward.dsinks, [](auto& x) { return AttentionGradients{.dsinks = x.out()}; });
  alone(expected.backward.dslopes, [](auto& x) { return AttentionGradients{.dslopes = x.out()}; });
}

/// Entries of sequence b of a tensor of the batch, cut to its own lengths.
AnyTensor<4> cut(const AnyTensor<4>& from, std::array<index_t, 4> shape, std::array<index_t, 4> first) {
  if (!from) return {};
  for (int axis = 0; axis < 4; ++axis) {
    if (from.shape()[axis] == 1) shape[axis] = 1, first[axis] = 0;
  }
  AnyTensor<4> to(from.dtype(), shape);
  to.generate([&](auto index) {
    for (int axis = 0; axis < 4; ++axis) index[axis] += first[axis];
    return from.get(index);
  });
  return to;
}

/// Sequence b of the problem by itself, without padding, not packed.
AttentionProblem alone(const AttentionProblem& batch, index_t b) {
  AttentionProblem one = batch;
  const bool packed = !batch.cu_q.empty();
  const index_t queries = batch.num_queries(b), keys = batch.num_keys(b), heads = batch.config.num_heads;
  const index_t first = packed ? 0 : b, first_q = packed ? batch.cu_q[b] : 0, first_kv = packed ? batch.cu_kv[b] : 0;
  one.config.arrangement = Arrangement::bshd;
  one.config.batch = 1;
  one.config.seqlen_q = queries;
  one.config.seqlen_kv = keys;
  one.cu_q = one.cu_kv = one.seqlen_q = one.seqlen_kv = {};
  one.q = cut(batch.q, {1, queries, heads, batch.config.head_dim}, {first, first_q, 0, 0});
  one.k = cut(batch.k, {1, keys, batch.num_kv_heads, batch.config.head_dim}, {first, first_kv, 0, 0});
  one.v = cut(batch.v, {1, keys, batch.num_kv_heads, batch.config.head_dim_v}, {first, first_kv, 0, 0});
  one.dout = cut(batch.dout, {1, queries, heads, batch.config.head_dim_v}, {first, first_q, 0, 0});
  one.bias = cut(batch.bias, {1, heads, queries, keys}, {b, 0, 0, 0});
  one.visible = cut(batch.visible, {1, heads, queries, keys}, {b, 0, 0, 0});
  if (!batch.offsets.empty()) one.offsets = {batch.offsets[b]};
  one.sequence_ids = {batch.sequence_ids.empty() ? b : batch.sequence_ids[b]};
  if (batch.dlse) {
    one.dlse = AnyTensor<3>(batch.dlse.dtype(), {1, heads, queries});
    one.dlse.generate([&](auto at) { return batch.dlse.get({first, at[1], first_q + at[2]}); });
  }
  return one;
}

TEST_P(AttentionBitwise, ABatchIsItsSequencesAlone) {
  if (problem_.pages > 0) GTEST_SKIP() << "a paged batch shares its pages";
  problem_.config.probs = Probs::all;
  problem_.probs_heads = problem_.probs_rows = {};
  const Results together = run(problem_);
  const bool packed = !problem_.cu_q.empty();
  for (index_t b = 0; b < problem_.config.batch; ++b) {
    const AttentionProblem one = alone(problem_, b);
    const Results single = run(one);
    const index_t first = packed ? 0 : b, first_q = packed ? problem_.cu_q[b] : 0,
                  first_kv = packed ? problem_.cu_kv[b] : 0;
    const auto same = [&](const AnyTensor<4>& part, const AnyTensor<4>& whole, std::array<index_t, 4> from,
                          const char* name) {
      EXPECT_EQ(cut(whole, part.shape(), from).values(), part.values())
          << name << " of sequence " << b << ": " << problem_.config.text();
    };
    same(single.forward.out, together.forward.out, {first, first_q, 0, 0}, "out");
    same(single.forward.probs, together.forward.probs, {b, 0, 0, 0}, "probs");
    same(single.backward.dq, together.backward.dq, {first, first_q, 0, 0}, "dq");
    same(single.backward.dk, together.backward.dk, {first, first_kv, 0, 0}, "dk");
    same(single.backward.dv, together.backward.dv, {first, first_kv, 0, 0}, "dv");
    for (index_t h = 0; h < one.config.num_heads; ++h) {
      for (index_t i = 0; i < one.config.seqlen_q; ++i) {
        EXPECT_EQ(single.forward.lse.get({0, h, i}), together.forward.lse.get({first, h, first_q + i}));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, AttentionBitwise, testing::ValuesIn(bitwise_configs()), config_name);

TEST(AttentionCausal, ARowIgnoresLaterKeys) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    AttentionProblem problem(
        {.seqlen_q = 150, .seqlen_kv = 150, .num_heads = 2, .dtype = dtype, .causal = Causal::bottom_right},
        run_seed());
    const ForwardResult expected = problem.forward(core_engine());
    for (const index_t cut : {1, 24, 48, 64, 127, 128, 149}) {
      AttentionProblem changed = problem;
      Random random(run_seed() + 1);
      for (index_t j = cut; j < 150; ++j) {
        for (index_t h = 0; h < 2; ++h) {
          for (index_t d = 0; d < 8; ++d) {
            changed.k.set({1, j, h, d}, 50 * random.uniform());
            changed.v.set({1, j, h, d}, 50 * random.uniform());
          }
        }
      }
      const ForwardResult result = changed.forward(core_engine());
      for (index_t i = 0; i < cut; ++i) {
        for (index_t d = 0; d < 8; ++d) ASSERT_EQ(result.out.get({1, i, 1, d}), expected.out.get({1, i, 1, d}));
        ASSERT_EQ(result.lse.get({1, 0, i}), expected.lse.get({1, 0, i}));
      }
      EXPECT_NE(result.lse.get({1, 0, 149}), expected.lse.get({1, 0, 149}));
    }
  }
}

// Rows of the heads of a group share tiles, query by query where a rule hides keys: which rows stand together in a tile
// is never a matter of bits.
TEST(AttentionCausal, RowsOfAGroupHaveTheSameBitsInAnyTile) {
  for (const std::optional<index_t> window : {std::optional<index_t>(), std::optional<index_t>(70)}) {
    for (const KvHeads kv_heads : {KvHeads::grouped, KvHeads::one, KvHeads::mapped}) {
      AttentionProblem all({.batch = 1,
                            .seqlen_q = 150,
                            .seqlen_kv = 333,
                            .num_heads = 6,
                            .head_dim = 20,
                            .head_dim_v = 9,
                            .causal = Causal::at_offset,
                            .window_left = window,
                            .kv_heads = kv_heads},
                           run_seed());
      all.offsets = {150};
      const ForwardResult expected = all.forward(core_engine());
      for (const auto& [first, rows] : {std::pair<index_t, index_t>{0, 33}, {7, 143}, {50, 60}, {101, 49}}) {
        AttentionProblem some = all;
        some.config.seqlen_q = rows;
        some.q = cut(all.q, {1, rows, 6, 20}, {0, first, 0, 0});
        some.offsets = {150 + first};
        const ForwardResult result = some.forward(core_engine());
        EXPECT_EQ(result.out.values(), cut(expected.out, {1, rows, 6, 9}, {0, first, 0, 0}).values())
            << rows << " rows from " << first << ": " << all.config.text();
      }
    }
  }
}

// ROCm/aiter PR#4378: how a long cache is split over keys depends on its length alone.
TEST(AttentionDecode, OneQueryHasTheSameBitsInAnyBatch) {
  const AttentionConfig config{
      .batch = 7, .seqlen_q = 1, .seqlen_kv = 8192, .num_heads = 16, .kv_heads = KvHeads::grouped};
  AttentionProblem many(config, run_seed());
  const ForwardResult expected = many.forward(core_engine());
  for (const index_t batch : {1, 2}) {
    AttentionProblem few = many;
    few.config.batch = batch;
    few.q = cut(many.q, {batch, 1, 16, 8}, {3, 0, 0, 0});
    few.k = cut(many.k, {batch, 8192, 8, 8}, {3, 0, 0, 0});
    few.v = cut(many.v, {batch, 8192, 8, 8}, {3, 0, 0, 0});
    for (const int count : {1, 2, 5, 16}) {
      Threads threads(count);
      few.threads = &threads;
      const ForwardResult result = few.forward(core_engine());
      EXPECT_EQ(result.out.values(), cut(expected.out, {batch, 1, 16, 8}, {3, 0, 0, 0}).values());
    }
  }
  // A cache that is longer than what is in it, and pages in any order, make no difference either.
  AttentionProblem tail = many;
  const std::vector<index_t> present(7, 5000);
  tail.seqlen_kv = present;
  AttentionProblem exact = many;
  exact.config.seqlen_kv = 5000;
  exact.k = cut(many.k, {7, 5000, 8, 8}, {0, 0, 0, 0});
  exact.v = cut(many.v, {7, 5000, 8, 8}, {0, 0, 0, 0});
  EXPECT_EQ(tail.forward(core_engine()).out.values(), exact.forward(core_engine()).out.values());
}

TEST(AttentionPaged, PagesInAnyOrderAreTheCacheInOnePiece) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const index_t queries : {1, 3, 50}) {
      AttentionProblem paged({.batch = 3,
                              .seqlen_q = queries,
                              .seqlen_kv = 300,
                              .num_heads = 4,
                              .dtype = dtype,
                              .arrangement = Arrangement::paged,
                              .causal = Causal::bottom_right,
                              .kv_heads = KvHeads::grouped},
                             run_seed());
      AttentionProblem piece = paged;
      const index_t page = paged.k.shape()[1], keys = paged.pages * page;
      piece.config.arrangement = Arrangement::bshd;
      piece.pages = 0;
      piece.page_table = {};
      const auto gather = [&](const AnyTensor<4>& from) {
        AnyTensor<4> to(dtype, {3, keys, 2, 8});
        to.generate([&](auto at) {
          if (at[1] >= paged.seqlen_kv[at[0]]) return 9.0;
          return from.get({paged.page_table[at[0] * paged.pages + at[1] / page], at[1] % page, at[2], at[3]});
        });
        return to;
      };
      piece.k = gather(paged.k);
      piece.v = gather(paged.v);
      EXPECT_EQ(paged.forward(core_engine()).out.values(), piece.forward(core_engine()).out.values());
    }
  }
}

}  // namespace
}  // namespace multihead::test
