// delta = sum_d dout*out - dlse, equation (8) of docs/algorithm.md, one number per row, subtracted from dP in (9).
#pragma once

#include <cmath>
#include <limits>

#include "attention/problem.hpp"
#include "multihead/tensor.hpp"

namespace multihead {

template <class T>
class Delta {
 public:
  Delta(const Problem& problem, const AttentionBackwardInput& input);

  /// [B, H, Sq] or [1, H, total_q].
  InputView<3> view() const { return delta_.view(); }

  /// (14): dsink_h = -sum over rows of exp(sink_h - lse) * delta.
  void sink_gradient(TensorView<T, 1> dsinks) const;

 private:
  const Problem& problem_;
  const AttentionBackwardInput& input_;
  Tensor<T, 3> delta_;
};

}  // namespace multihead
