#include "tests/support/central_differences.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace multihead::test {
namespace {

double loss(const AttentionProblem& problem, const Engine& engine) {
  const ForwardResult result = problem.forward(engine);
  const auto out = result.out.values(), dout = problem.dout.values();
  const auto lse = result.lse.values(), dlse = problem.dlse.values();
  double sum = 0;
  for (std::size_t n = 0; n < out.size(); ++n) sum += out[n] * dout[n];
  for (std::size_t n = 0; n < dlse.size(); ++n) {
    if (std::isfinite(lse[n])) sum += lse[n] * dlse[n];  // an empty row has no lse to speak of
  }
  return sum;
}

template <int R>
void compare(AttentionProblem& problem, const Engine& engine, AnyTensor<R> AttentionProblem::*operand,
             const AnyTensor<R>& gradient, const char* name) {
  AnyTensor<R>& x = problem.*operand;
  ASSERT_EQ(x.shape(), gradient.shape());
  for (index_t position = 0; position < x.size(); ++position) {
    const auto index = x.index_of(position);
    const double value = x.get(index), h = 1e-5 * std::max(1.0, std::abs(value));
    double difference = 0;  // an infinite bias or sink stays what it is, whatever is added to it
    if (std::isfinite(value)) {
      x.set(index, value + h);
      const double above = loss(problem, engine);
      x.set(index, value - h);
      const double below = loss(problem, engine);
      x.set(index, value);
      difference = (above - below) / (2 * h);
    }
    EXPECT_NEAR(gradient.get(index), difference, 2e-7 * std::max(1.0, std::abs(difference)))
        << name << " element " << position << " of " << problem.config.text();
  }
}

}  // namespace

void expect_central_differences(const Engine& engine, AttentionConfig config, std::uint64_t seed) {
  config.dtype = DType::f64;
  AttentionProblem problem(config, seed);
  const BackwardResult gradients = problem.backward(engine, problem.forward(engine));
  compare(problem, engine, &AttentionProblem::q, gradients.dq, "dq");
  compare(problem, engine, &AttentionProblem::k, gradients.dk, "dk");
  compare(problem, engine, &AttentionProblem::v, gradients.dv, "dv");
  if (problem.bias) compare(problem, engine, &AttentionProblem::bias, gradients.dbias, "dbias");
  if (problem.sinks) compare(problem, engine, &AttentionProblem::sinks, gradients.dsinks, "dsinks");
  if (problem.slopes) compare(problem, engine, &AttentionProblem::slopes, gradients.dslopes, "dslopes");
}

}  // namespace multihead::test
