// The elements of an ONNX tensor as a flat array, for tests.
#pragma once

#include <type_traits>
#include <vector>

#include "multihead/onnx/operators.hpp"
#include "onnx/convert.hpp"

namespace multihead::test {

/// Elements of a view of any rank and type, row-major.
template <class Real>
std::vector<Real> onnx_values(const OnnxView& view) {
  index_t size = view.present ? 1 : 0;
  for (const index_t extent : view.shape) size *= extent;
  std::vector<Real> values;
  visit_onnx_type(view.type, [&](auto element) {
    const auto* data = static_cast<const decltype(element)*>(view.data);
    for (index_t n = 0; n < size; ++n) {
      index_t rest = n, at = 0;
      for (std::size_t axis = view.shape.size(); axis-- > 0; rest /= view.shape[axis]) {
        at += rest % view.shape[axis] * view.stride[axis];
      }
      if constexpr (std::is_same_v<decltype(element), f16> || std::is_same_v<decltype(element), bf16>) {
        values.push_back(static_cast<Real>(to_float(data[at])));
      } else {
        values.push_back(static_cast<Real>(data[at]));
      }
    }
  });
  return values;
}

}  // namespace multihead::test
