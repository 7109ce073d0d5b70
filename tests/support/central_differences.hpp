// Gradients against central differences, in f64.
#pragma once

#include "tests/support/attention_problem.hpp"

namespace multihead::test {

/// With L = sum(out * dout) + sum(lse * dlse), expects every entry of dq, dk, dv, dbias, dsinks and dslopes to be
/// (L(x + h) - L(x - h)) / 2h.
void expect_central_differences(const Engine& engine, AttentionConfig config, std::uint64_t seed);

}  // namespace multihead::test
