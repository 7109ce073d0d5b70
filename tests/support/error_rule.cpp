#include "tests/support/error_rule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "reference/attention.hpp"
#include "reference/rounding.hpp"

namespace multihead::test {
namespace {

using reference::epsilon;

constexpr double kForwardFactor = 2, kBackwardFactor = 3, kDeviations = 4;

Engine truth_engine(const AttentionProblem& problem) {
  return problem.wide_dtype() == DType::f64 ? reference_engine<long double>() : reference_engine<double>();
}

Engine plain_engine(const AttentionProblem& problem) {
  return problem.wide_dtype() == DType::f64 ? reference_engine<double>() : reference_engine<float>();
}

/// The standard deviations that rounding gives the results of the plain implementation.
template <class Real>
ForwardResult forward_deviations(const AttentionProblem& problem) {
  return problem.forward({reference::attention_forward<reference::Rounding<Real>>, {}}, DType::f64);
}

template <class Real>
BackwardResult backward_deviations(const AttentionProblem& problem, const ForwardResult& saved) {
  const ForwardResult inherited = forward_deviations<Real>(problem);
  AnyTensor<4> storage = inherited.out;
  const double unit = saved.out.dtype() == problem.wide_dtype() ? 0 : epsilon(saved.out.dtype()) / std::sqrt(12.0);
  storage.generate([&](auto at) { return unit * std::abs(saved.out.get(at)); });
  const auto backward = [&](const auto& input, const auto& gradients, const auto& options) {
    reference::attention_backward<reference::Rounding<Real>>(
        input, gradients, options, {inherited.out.in(), storage.in(), inherited.row_max.in(), inherited.row_sum.in()});
  };
  return problem.backward({{}, backward}, saved, DType::f64);
}

/// Rows of equal scores round alike: over n of them errors add up to n times one, not to the root of n. The largest
/// such n, by the saved statistics of rows that see a key: 1 for random scores, all rows for a scale of 0, many where a
/// softcap has flattened the scores.
double rows_alike(const ForwardResult& truth) {
  std::map<std::pair<double, double>, int> count;
  const auto row_max = truth.row_max.values(), row_sum = truth.row_sum.values();
  const auto rounded = [](double x) { return static_cast<double>(static_cast<float>(x)); };
  int most = 1;
  for (std::size_t n = 0; n < row_max.size(); ++n) {
    if (row_sum[n] == 0 || !std::isfinite(row_sum[n])) continue;
    most = std::max(most, ++count[{rounded(row_max[n]), rounded(row_sum[n])}]);
  }
  return most;
}

/// Compares tensors of the results under test with truth, plain and deviation of the same problem.
template <class Result>
struct Judge {
  const AttentionProblem& problem;
  const Result &result, &truth, &plain, &deviation;
  double factor;

  template <int R>
  void operator()(const char* name, AnyTensor<R> Result::*tensor, double rows = 1) const {
    const AnyTensor<R>& x_tensor = result.*tensor;
    if (!x_tensor) return;
    ASSERT_TRUE(x_tensor.outside_untouched()) << name << " wrote outside its view: " << problem.config.text();
    const auto x = x_tensor.values(), t = (truth.*tensor).values(), p = (plain.*tensor).values(),
               s = (deviation.*tensor).values();
    double plain_error = 0;
    for (std::size_t n = 0; n < t.size(); ++n) {
      if (std::isfinite(t[n])) plain_error = std::max(plain_error, std::abs(p[n] - t[n]));
    }
    const double half_unit = x_tensor.dtype() == problem.wide_dtype() ? 0 : epsilon(x_tensor.dtype()) / 2;
    const double half_smallest = x_tensor.dtype() == DType::f16 ? 0x1p-25 : 0;
    for (std::size_t n = 0; n < t.size(); ++n) {
      if (!std::isfinite(t[n])) {
        ASSERT_TRUE(std::isnan(t[n]) ? std::isnan(x[n]) : x[n] == t[n])
            << name << " element " << n << " is " << x[n] << ", not " << t[n] << ": " << problem.config.text();
        continue;
      }
      const double error = std::abs(x[n] - t[n]);
      const double allowed = factor * plain_error + kDeviations * std::sqrt(rows) * s[n] +
                             std::max(half_unit * std::abs(t[n]), half_smallest);
      ASSERT_TRUE(error <= allowed) << name << " element " << n << " is " << x[n] << ", not " << t[n] << ": error "
                                    << error << ", largest plain error " << plain_error << ", deviation " << s[n]
                                    << ": " << problem.config.text();
    }
  }
};

}  // namespace

void expect_exact_forward(const AttentionProblem& problem, const ForwardResult& result) {
  const ForwardResult truth = problem.forward(truth_engine(problem), DType::f64);
  const ForwardResult plain = problem.forward(plain_engine(problem));
  const ForwardResult deviation =
      problem.wide_dtype() == DType::f64 ? forward_deviations<double>(problem) : forward_deviations<float>(problem);
  const Judge<ForwardResult> check{problem, result, truth, plain, deviation, kForwardFactor};
  check("out", &ForwardResult::out);
  check("row_max", &ForwardResult::row_max);
  check("row_sum", &ForwardResult::row_sum);
  check("lse", &ForwardResult::lse);
  check("probs", &ForwardResult::probs);
}

void expect_exact_backward(const AttentionProblem& problem, const BackwardResult& result) {
  const Engine engine = truth_engine(problem);
  const ForwardResult forward = problem.forward(engine, DType::f64);
  const BackwardResult truth = problem.backward(engine, forward, DType::f64);
  const Engine plain_arithmetic = plain_engine(problem);
  const ForwardResult saved = problem.forward(plain_arithmetic);
  const BackwardResult plain = problem.backward(plain_arithmetic, saved);
  const BackwardResult deviation = problem.wide_dtype() == DType::f64 ? backward_deviations<double>(problem, saved)
                                                                      : backward_deviations<float>(problem, saved);
  const Judge<BackwardResult> check{problem, result, truth, plain, deviation, kBackwardFactor};
  const double alike = rows_alike(forward);
  check("dq", &BackwardResult::dq);
  check("dk", &BackwardResult::dk, alike);
  check("dv", &BackwardResult::dv, alike);
  check("dbias", &BackwardResult::dbias, alike);
  check("dsinks", &BackwardResult::dsinks, alike);
  check("dslopes", &BackwardResult::dslopes, alike);
}

void expect_core_exact(const AttentionProblem& problem) {
  const ForwardResult forward = problem.forward(core_engine());
  expect_exact_forward(problem, forward);
  if (problem.config.arrangement != Arrangement::paged)
    expect_exact_backward(problem, problem.backward(core_engine(), forward));
}

void expect_long_sum(const std::string& what, const std::vector<float>& result, double truth, double magnitude) {
  constexpr double kLongSum = 2e-5;
  ASSERT_FALSE(result.empty()) << what;
  for (std::size_t n = 0; n < result.size(); ++n) {
    const double error = std::abs(result[n] - truth);
    ASSERT_TRUE(error <= kLongSum * magnitude)
        << what << ": element " << n << " is " << result[n] << ", not " << truth << ": " << error / magnitude;
  }
}

}  // namespace multihead::test
