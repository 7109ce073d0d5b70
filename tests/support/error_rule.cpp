#include "tests/support/error_rule.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace multihead::test {
namespace {

constexpr double kForwardFactor = 2, kBackwardFactor = 3, kUlps = 8;

/// Distance from 1 to the next number.
double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-52;
    case DType::f32: return 0x1p-23;
    case DType::f16: return 0x1p-10;
    default: return 0x1p-7;
  }
}

Engine truth_engine(const AttentionProblem& problem) {
  return problem.wide_dtype() == DType::f64 ? reference_engine<long double>() : reference_engine<double>();
}

Engine plain_engine(const AttentionProblem& problem) {
  return problem.wide_dtype() == DType::f64 ? reference_engine<double>() : reference_engine<float>();
}

/// A tensor with its features in another order: as they are, reversed, or beginning at a third or two thirds.
/// `back` undoes it.
AnyTensor<4> reorder(const AnyTensor<4>& tensor, int order, bool back = false) {
  if (order == 0 || !tensor) return tensor;
  AnyTensor<4> result = tensor;
  const index_t width = tensor.shape()[3], first = (order - 1) * width / 3, shift = back ? width - first : first;
  result.generate([&](auto index) {
    index[3] = order == 1 ? width - 1 - index[3] : (index[3] + shift) % width;
    return tensor.get(index);
  });
  return result;
}

constexpr int kOrders = 4;

struct Plain {
  ForwardResult forward;
  BackwardResult backward;
};

/// The plain implementation on the problem with reordered features, its results in the original order.
Plain run_plain(const AttentionProblem& problem, int order, bool with_backward) {
  AttentionProblem reordered = problem;
  for (auto operand : {&AttentionProblem::q, &AttentionProblem::k, &AttentionProblem::v, &AttentionProblem::dout}) {
    reordered.*operand = reorder(problem.*operand, order);
  }
  const Engine engine = plain_engine(problem);
  Plain plain;
  plain.forward = reordered.forward(engine);
  if (with_backward) plain.backward = reordered.backward(engine, plain.forward);
  plain.forward.out = reorder(plain.forward.out, order, true);
  for (auto gradient : {&BackwardResult::dq, &BackwardResult::dk, &BackwardResult::dv}) {
    plain.backward.*gradient = reorder(plain.backward.*gradient, order, true);
  }
  return plain;
}

struct Judge {
  const AttentionProblem& problem;
  double factor;
  std::array<Plain, kOrders> plains;

  Judge(const AttentionProblem& of, double allowed, bool with_backward) : problem(of), factor(allowed) {
    for (int order = 0; order < kOrders; ++order) plains[order] = run_plain(of, order, with_backward);
  }

  template <class Result, int R>
  void operator()(const char* name, const Result& results, const Result& truths, Result Plain::*part,
                  AnyTensor<R> Result::*tensor, double magnitude) const {
    const AnyTensor<R>& result = results.*tensor;
    if (!result) return;
    ASSERT_TRUE(result.outside_untouched()) << name << " wrote outside its view: " << problem.config.text();
    const auto x = result.values(), t = (truths.*tensor).values();
    double error = 0, plain_error = 0, largest = 0;
    for (std::size_t n = 0; n < t.size(); ++n) {
      if (!std::isfinite(t[n])) {
        ASSERT_TRUE(std::isnan(t[n]) ? std::isnan(x[n]) : x[n] == t[n])
            << name << " element " << n << " is " << x[n] << ", not " << t[n] << ": " << problem.config.text();
        continue;
      }
      ASSERT_TRUE(std::isfinite(x[n])) << name << " element " << n << " is " << x[n] << ", not " << t[n] << ": "
                                       << problem.config.text();
      largest = std::max(largest, std::abs(t[n]));
      error = std::max(error, std::abs(x[n] - t[n]));
    }
    for (const Plain& plain : plains) {
      const auto p = (plain.*part.*tensor).values();
      for (std::size_t n = 0; n < t.size(); ++n) {
        if (std::isfinite(t[n])) plain_error = std::max(plain_error, std::abs(p[n] - t[n]));
      }
    }
    const double wide = kUlps * epsilon(problem.wide_dtype()) * std::max(magnitude, largest);
    const double stored = result.dtype() == problem.wide_dtype() ? 0 : epsilon(result.dtype()) / 2 * largest;
    EXPECT_LE(error, factor * plain_error + wide + stored)
        << name << ": plain error " << plain_error << ", allowance " << wide << " + " << stored << ", largest "
        << largest << ": " << problem.config.text();
  }
};

/// The largest Euclidean norm of a row.
double largest_row(const AnyTensor<4>& tensor) {
  const auto values = tensor.values();
  const auto width = static_cast<std::size_t>(tensor.shape()[3]);
  double largest = 0;
  for (std::size_t row = 0; row < values.size(); row += width) {
    double sum = 0;
    for (std::size_t d = 0; d < width; ++d) sum += values[row + d] * values[row + d];
    if (std::isfinite(sum)) largest = std::max(largest, sum);
  }
  return std::sqrt(largest);
}

/// The largest finite entry that is not a filler such as the lowest float: adding that leaves nothing to round.
template <int R>
double largest_addend(const AnyTensor<R>& tensor) {
  double largest = 0;
  for (double value : tensor.values()) {
    if (std::abs(value) < 1e30) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

double scale_of(const AttentionProblem& problem) {
  return std::abs(problem.options().scale.value_or(1 / std::sqrt(static_cast<double>(problem.config.head_dim))));
}

/// A score is rounded at its own size, and softmax passes at most a quarter of that on to a probability.
double probability_size(const ForwardResult& truth) { return std::max(1.0, largest_addend(truth.row_max) / 4); }

}  // namespace

void expect_exact_forward(const AttentionProblem& problem, const ForwardResult& result) {
  const ForwardResult truth = problem.forward(truth_engine(problem), DType::f64);
  const Judge judge(problem, kForwardFactor, false);
  const auto check = [&](const char* name, auto tensor, double magnitude) {
    judge(name, result, truth, &Plain::forward, tensor, magnitude);
  };
  const double distance = static_cast<double>(problem.config.seqlen_q + problem.config.seqlen_kv);
  const double scores = scale_of(problem) * largest_row(problem.q) * largest_row(problem.k) +
                        largest_addend(problem.bias) + largest_addend(problem.slopes) * distance;
  const double prob = probability_size(truth);
  check("out", &ForwardResult::out, prob * largest_addend(problem.v));
  check("row_max", &ForwardResult::row_max, scores);
  check("row_sum", &ForwardResult::row_sum, scores * largest_addend(truth.row_sum));
  check("lse", &ForwardResult::lse, scores);
  check("probs", &ForwardResult::probs, prob);
}

void expect_exact_backward(const AttentionProblem& problem, const BackwardResult& result) {
  const Engine engine = truth_engine(problem);
  const ForwardResult forward = problem.forward(engine, DType::f64);
  const BackwardResult truth = problem.backward(engine, forward, DType::f64);
  const double prob = probability_size(forward);
  const Judge judge(problem, kBackwardFactor, true);
  const auto check = [&](const char* name, auto tensor, double magnitude) {
    judge(name, result, truth, &Plain::backward, tensor, magnitude);
  };
  // dscore = prob * (dprob - delta + dlse) may cancel to nothing; its terms are as large as |dout| |v|, and as dot
  // products of Dv terms are rounded about sqrt(Dv) times.
  const double kept = problem.config.dropout < 1 ? 1 / (1 - problem.config.dropout) : 0;
  const double roundings = std::max(1.0, std::sqrt(static_cast<double>(problem.config.head_dim_v)) / 4);
  const double dscore =
      prob * (kept * roundings * largest_row(problem.dout) * largest_row(problem.v) + (problem.dlse ? 3 : 0));
  const double distance = static_cast<double>(problem.config.seqlen_q + problem.config.seqlen_kv);
  check("dq", &BackwardResult::dq, scale_of(problem) * dscore * largest_addend(problem.k));
  check("dk", &BackwardResult::dk, scale_of(problem) * dscore * largest_addend(problem.q));
  check("dv", &BackwardResult::dv, prob * kept * largest_addend(problem.dout));
  check("dbias", &BackwardResult::dbias, dscore);
  check("dsinks", &BackwardResult::dsinks, dscore);
  check("dslopes", &BackwardResult::dslopes, dscore * distance);
}

void expect_core_exact(const AttentionProblem& problem) {
  const ForwardResult forward = problem.forward(core_engine());
  expect_exact_forward(problem, forward);
  if (problem.config.arrangement != Arrangement::paged)
    expect_exact_backward(problem, problem.backward(core_engine(), forward));
}

}  // namespace multihead::test
