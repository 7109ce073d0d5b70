// The score outputs of ONNX Attention (qk_matmul_output_mode 0 to 2), which are Sq x Skv by definition.
#pragma once

#include "multihead/attention_options.hpp"
#include "onnx/attention_plan.hpp"

namespace multihead {

/// A mask as attention_forward takes it: bool unchanged, numbers in the computing type C; `buffer` owns converted ones.
template <class C>
BroadcastView core_mask(const OnnxView4& mask, Tensor<C, 4>& buffer) {
  BroadcastView result;
  if (mask.type == OnnxType::boolean || mask.type == onnx_type_of<C>) {
    result = core_input(mask);
  } else {
    buffer = converted<C>(mask);
    result = buffer.view();
  }
  return result;
}

/// Writes scores [B, H, Sq, total]: mode 0 scores, 1 capped, 2 biased with -inf in hidden slots, whatever stands there.
/// `options` is what the core was given for the same plan.
template <class C>
void write_scores(const OnnxAttentionPlan& plan, index_t mode, const AttentionOptions& options, OnnxTensor& scores);

}  // namespace multihead
