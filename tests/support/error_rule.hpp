// How exact a result must be: no worse than a plain implementation of the same precision on the same input.
//
//   |result - truth| <= factor * max |plain - truth| + 4 * deviation + half an ulp of the storage
//
// truth: the reference one precision up. plain: the reference in the arithmetic and storage of the result.
// deviation: the standard deviation that rounding gives this element in the plain loop (reference/rounding.hpp), since
// in a small problem the plain loop may just be lucky; in gradients that are sums over rows, times the root of the
// number of rows with the same scores, whose errors are the same. docs/numerics.md has the argument, and what was seen.
#pragma once

#include <string>
#include <vector>

#include "tests/support/attention_problem.hpp"

namespace multihead::test {

/// Runs everything through the core, the plain implementation and the truth, and compares.
/// Adds a test failure that names the tensor, the errors and the problem.
void expect_exact_forward(const AttentionProblem& problem, const ForwardResult& result);
void expect_exact_backward(const AttentionProblem& problem, const BackwardResult& result);

/// Both, with the core as it stands. Paged problems have no backward.
void expect_core_exact(const AttentionProblem& problem);

/// The rule for long sums, which plain loops do not pass: |result - truth| <= 2e-5 * magnitude for every element, where
/// magnitude is the sum of the absolute values of the terms. f32, up to 2^20 terms. docs/numerics.md says what the sums
/// are made of.
void expect_long_sum(const std::string& what, const std::vector<float>& result, double truth, double magnitude);

}  // namespace multihead::test
