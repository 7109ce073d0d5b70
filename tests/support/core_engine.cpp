#include "tests/support/attention_problem.hpp"

namespace multihead::test {

Engine core_engine() {
  return {[](const auto& input, const auto& output, const auto& options) { attention_forward(input, output, options); },
          [](const auto& input, const auto& gradients, const auto& options) {
            attention_backward(input, gradients, options);
          }};
}

}  // namespace multihead::test
