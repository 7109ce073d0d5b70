#include <cmath>
#include <limits>

#include "reference/attention.hpp"
#include "reference/problem.hpp"

namespace multihead::reference {
namespace {

using std::exp;
using std::log;

template <class Real>
constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

/// The softmax of one row: its visible keys with their probabilities.
template <class Real>
struct Row {
  std::vector<index_t> keys;
  std::vector<Real> probs;
  Real row_max = -kInfinity<Real>;
  Real row_sum = 0;
};

// A NaN score, a largest score of +infinity, and scores that are all -infinity make row_sum NaN, and with it the row.
template <class Real>
Row<Real> softmax_row(const Problem<Real>& problem, index_t b, index_t h, index_t i) {
  Row<Real> row;
  std::vector<Real> scores;
  for (index_t j = 0; j < problem.num_keys(b); ++j) {
    if (!problem.visible(b, h, i, j)) continue;
    row.keys.push_back(j);
    scores.push_back(problem.score(b, h, i, j).value);
    if (scores.back() > row.row_max) row.row_max = scores.back();
  }
  if (problem.has_sink(h)) {
    if (problem.sink(h) > row.row_max) row.row_max = problem.sink(h);
    row.row_sum += exp(problem.sink(h) - row.row_max);
  }
  for (Real score : scores) row.probs.push_back(exp(score - row.row_max));
  for (Real prob : row.probs) row.row_sum += prob;
  for (Real& prob : row.probs) prob /= row.row_sum;
  return row;
}

/// Positions in `selection` by index, or -1; without a selection each index stands at itself.
std::vector<index_t> positions(const TensorView<const index_t, 1>& selection, index_t extent) {
  std::vector<index_t> position(static_cast<std::size_t>(extent), -1);
  for (index_t n = 0; n < (selection ? selection.shape(0) : extent); ++n) {
    position[static_cast<std::size_t>(selection ? selection(n) : n)] = n;
  }
  return position;
}

}  // namespace

template <class Real>
void attention_forward(const AttentionInput& input, const AttentionOutput& output, const AttentionOptions& options) {
  const Problem<Real> problem(input.q, input.k, input.v, options);
  const std::array<index_t, 3> rows{problem.q.shape[0], problem.num_heads(), problem.q.shape[1]};
  const auto head_at = positions(options.probs.heads, problem.num_heads());
  const auto row_at = positions(options.probs.rows, problem.max_queries());

  // Rows that are absent or see nothing keep what stands here.
  Array<Real, 4> out({rows[0], rows[2], problem.num_heads(), problem.head_dim_v()});
  Array<Real, 4> probs(output.probs.shape());
  Array<Real, 3> row_max(rows, -kInfinity<Real>), row_sum(rows), lse(rows, -kInfinity<Real>);

  for (index_t b = 0; b < problem.batch(); ++b) {
    for (index_t h = 0; h < problem.num_heads(); ++h) {
      for (index_t i = 0; i < problem.num_queries(b); ++i) {
        const Row<Real> row = softmax_row(problem, b, h, i);
        if (row.keys.empty() && !problem.has_sink(h)) continue;
        const Place at = problem.query_place(b, i);
        row_max(at.batch, h, at.token) = row.row_max;
        // What moves the maximum moves every term of the sum; lse is free of it.
        row_sum(at.batch, h, at.token) =
            deviating(row.row_sum, value_of(row.row_sum) * static_cast<double>(row.row_max));
        lse(at.batch, h, at.token) = row.row_max + log(row.row_sum);

        const index_t n = head_at[static_cast<std::size_t>(h)], r = row_at[static_cast<std::size_t>(i)];
        for (std::size_t n_key = 0; n_key < row.keys.size(); ++n_key) {
          const index_t j = row.keys[n_key];
          if (output.probs && n >= 0 && r >= 0) probs(b, n, r, j) = row.probs[n_key];
          const Place key = problem.key_place(b, j);
          const Real weight = row.probs[n_key] * problem.dropout_factor(b, h, i, j);
          for (index_t d = 0; d < problem.head_dim_v(); ++d) {
            out(at.batch, at.token, h, d) += weight * problem.v(key.batch, key.token, problem.kv_head(h), d);
          }
        }
      }
    }
  }
  write(out, output.out);
  write(probs, output.probs);
  write(row_max, output.row_max);
  write(row_sum, output.row_sum);
  write(lse, output.lse);
}

template <class Real>
void attention_merge(const PartialAttention& a, const PartialAttention& b, const AttentionOutput& output) {
  const auto out_a = read<Real>(a.out), out_b = read<Real>(b.out);
  const auto lse_a = read<Real>(a.lse), lse_b = read<Real>(b.lse);
  Array<Real, 4> out(out_a.shape);
  Array<Real, 3> lse(lse_a.shape, -kInfinity<Real>);
  for (index_t n = 0; n < out.shape[0]; ++n) {
    for (index_t i = 0; i < out.shape[1]; ++i) {
      for (index_t h = 0; h < out.shape[2]; ++h) {
        const Real x = lse_a(n, h, i), y = lse_b(n, h, i), largest = x > y ? x : y;
        if (x == -kInfinity<Real> && y == -kInfinity<Real>) continue;
        const Real weight_a = exp(x - largest), weight_b = exp(y - largest), sum = weight_a + weight_b;
        lse(n, h, i) = largest + log(sum);
        for (index_t d = 0; d < out.shape[3]; ++d) {  // an empty part is not read, whatever stands in it
          if (x != -kInfinity<Real>) out(n, i, h, d) += weight_a * out_a(n, i, h, d) / sum;
          if (y != -kInfinity<Real>) out(n, i, h, d) += weight_b * out_b(n, i, h, d) / sum;
        }
      }
    }
  }
  write(out, output.out);
  write(lse, output.lse);
}

#define MULTIHEAD_REFERENCE_REAL(Real)                                                                           \
  template void attention_forward<Real>(const AttentionInput&, const AttentionOutput&, const AttentionOptions&); \
  template void attention_merge<Real>(const PartialAttention&, const PartialAttention&, const AttentionOutput&);
MULTIHEAD_REFERENCE_REAL(float)
MULTIHEAD_REFERENCE_REAL(double)
MULTIHEAD_REFERENCE_REAL(long double)
MULTIHEAD_REFERENCE_REAL(Rounding<float>)
MULTIHEAD_REFERENCE_REAL(Rounding<double>)

}  // namespace multihead::reference
