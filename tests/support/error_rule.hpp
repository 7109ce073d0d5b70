// How exact a result must be: no worse than a plain implementation of the same precision on the same input.
//
//   max |result - truth| <= factor * max |plain - truth| + kUlps * (ulp of the arithmetic at `magnitude`)
//                                                        + half an ulp of the storage at the largest truth
//
// truth: the reference one precision up. plain: the reference in the arithmetic and storage of the result; of four
// orders of the features in each dot product the worst, since in a small problem a single one may just be lucky.
// magnitude: how large the terms are that a result sums up; what they may cancel to is no measure of rounding.
#pragma once

#include <vector>

#include "tests/support/attention_problem.hpp"

namespace multihead::test {

/// Runs everything through the core, the plain implementation and the truth, and compares.
/// Adds a test failure that names the tensor, the errors and the problem.
void expect_exact_forward(const AttentionProblem& problem, const ForwardResult& result);
void expect_exact_backward(const AttentionProblem& problem, const BackwardResult& result);

/// Both, with the core as it stands. Paged problems have no backward.
void expect_core_exact(const AttentionProblem& problem);

}  // namespace multihead::test
