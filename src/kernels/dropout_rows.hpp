// Dropout of rows in f32, with SIMD.
#pragma once

#include <cstdint>

#include "multihead/types.hpp"

namespace multihead::kernels {

/// Dropout of one row. Element j is kept when word j % 4 of philox(key, {j / 4, row, 0, sequence}) is at least
/// `threshold`; kept ones are scaled by `scale`.
struct DropoutRow {
  std::uint64_t key;
  std::uint32_t row, sequence, threshold;
  float scale;
};

/// y = kept x, or y += kept x with `accumulate`. y may be x.
void dropout_row(const DropoutRow& row, const float* x, float* y, index_t n, bool accumulate);

}  // namespace multihead::kernels
