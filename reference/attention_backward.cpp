#include <cmath>

#include "reference/attention.hpp"
#include "reference/problem.hpp"

namespace multihead::reference {
namespace {

using std::exp;

template <class Real>
struct Gradients {
  Array<Real, 4> dq, dk, dv, dbias;
  Array<Real, 1> dsinks, dslopes;
};

template <class Real>
struct Saved {
  Array<Real, 4> out, dout;
  Array<Real, 3> row_max, row_sum, dlse;
  Array<double, 4> out_deviation;
};

template <class Real, int R>
void inherit(Array<Real, R>& values, const InputView<R>& deviations) {
  if (!deviations) return;
  const auto deviation = read<double>(deviations);
  for (std::size_t n = 0; n < values.values.size(); ++n) {
    values.values[n] = deviating(values.values[n], deviation.values[n]);
  }
}

template <class Real>
void backward_row(const Problem<Real>& problem, const Saved<Real>& saved, index_t b, index_t h, index_t i,
                  Gradients<Real>& gradients) {
  const Place at = problem.query_place(b, i);
  const index_t g = problem.kv_head(h);
  const Real row_max = saved.row_max(at.batch, h, at.token), row_sum = saved.row_sum(at.batch, h, at.token);
  const Real dlse = saved.dlse.values.empty() ? Real(0) : saved.dlse(at.batch, h, at.token);
  const Real* const dout = &saved.dout(at.batch, at.token, h, 0);
  const Real* const q = &problem.q(at.batch, at.token, h, 0);
  Real* const dq = &gradients.dq(at.batch, at.token, h, 0);

  Real row_delta = 0;
  double inherited = 0;  // what moves a row of out moves all of it: its deviations do not average out
  for (index_t d = 0; d < problem.head_dim_v(); ++d) {
    row_delta += dout[d] * saved.out(at.batch, at.token, h, d);
    if (!saved.out_deviation.values.empty()) {
      inherited += std::abs(value_of(dout[d])) * saved.out_deviation(at.batch, at.token, h, d);
    }
  }
  row_delta = deviating(row_delta, inherited);

  Real delta = 0;  // of a row that sees no key, whatever stands in its dout
  for (index_t j = 0; j < problem.num_keys(b); ++j) {
    if (!problem.visible(b, h, i, j)) continue;
    delta = row_delta;
    const Place key = problem.key_place(b, j);
    const Real* const k = &problem.k(key.batch, key.token, g, 0);
    const Real* const v = &problem.v(key.batch, key.token, g, 0);
    Real* const dk = &gradients.dk(key.batch, key.token, g, 0);
    Real* const dv = &gradients.dv(key.batch, key.token, g, 0);

    const auto score = problem.score(b, h, i, j);
    const Real prob = exp(score.value - row_max) / row_sum;
    const Real factor = problem.dropout_factor(b, h, i, j);
    Real dprob = 0;
    for (index_t d = 0; d < problem.head_dim_v(); ++d) {
      dv[d] += prob * factor * dout[d];
      dprob += dout[d] * v[d];
    }
    const Real dscore = prob * (factor * dprob - delta + dlse);
    const Real draw = dscore * score.slope * problem.scale();
    for (index_t d = 0; d < problem.head_dim(); ++d) {
      dq[d] += draw * k[d];
      dk[d] += draw * q[d];
    }
    if (!gradients.dbias.values.empty()) {
      gradients.dbias.values[gradients.dbias.offset(broadcast_index(gradients.dbias, {b, h, i, j}))] += dscore;
    }
    gradients.dslopes(h) -= dscore * problem.distance(b, i, j);
  }
  if (problem.has_sink(h)) {
    gradients.dsinks(h) += exp(problem.sink(h) - row_max) / row_sum * (dlse - delta);
  }
}

}  // namespace

template <class Real>
void attention_backward(const AttentionBackwardInput& input, const AttentionGradients& gradients,
                        const AttentionOptions& options, const SavedDeviations& deviations) {
  const Problem<Real> problem(input.q, input.k, input.v, options);
  Saved<Real> saved{read<Real>(input.out),     read<Real>(input.dout), read<Real>(input.row_max),
                    read<Real>(input.row_sum), read<Real>(input.dlse), read<double>(deviations.out)};
  inherit(saved.out, deviations.out_storage);
  inherit(saved.row_max, deviations.row_max);
  inherit(saved.row_sum, deviations.row_sum);
  const std::array<index_t, 1> heads{problem.num_heads()};
  const std::array<index_t, 4> bias_shape = gradients.dbias ? gradients.dbias.shape() : std::array<index_t, 4>{};
  Gradients<Real> sums{Array<Real, 4>(problem.q.shape), Array<Real, 4>(problem.k.shape),
                       Array<Real, 4>(problem.v.shape), Array<Real, 4>(bias_shape),
                       Array<Real, 1>(heads),           Array<Real, 1>(heads)};
  for (index_t b = 0; b < problem.batch(); ++b) {
    for (index_t h = 0; h < problem.num_heads(); ++h) {
      for (index_t i = 0; i < problem.num_queries(b); ++i) backward_row(problem, saved, b, h, i, sums);
    }
  }
  write(sums.dq, gradients.dq);
  write(sums.dk, gradients.dk);
  write(sums.dv, gradients.dv);
  write<Real, 4>(sums.dbias, gradients.dbias);
  write(sums.dsinks, gradients.dsinks);
  write(sums.dslopes, gradients.dslopes);
}

#define MULTIHEAD_REFERENCE_REAL(Real)                                                             \
  template void attention_backward<Real>(const AttentionBackwardInput&, const AttentionGradients&, \
                                         const AttentionOptions&, const SavedDeviations&);
MULTIHEAD_REFERENCE_REAL(float)
MULTIHEAD_REFERENCE_REAL(double)
MULTIHEAD_REFERENCE_REAL(long double)
MULTIHEAD_REFERENCE_REAL(Rounding<float>)
MULTIHEAD_REFERENCE_REAL(Rounding<double>)

}  // namespace multihead::reference
