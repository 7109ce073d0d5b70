#include "onnx/scores.hpp"

#include <cmath>
#include <limits>

#include "multihead/matmul.hpp"

namespace multihead {
namespace {

// Keys [begin, end) that causal, window and lengths leave to query i of sequence b.
struct KeyRange {
  index_t begin, end;
};

KeyRange visible_range(const OnnxAttentionPlan& plan, index_t b, index_t i) {
  const index_t p = plan.offset(b) + i;
  KeyRange range{0, plan.seqlens(b)};
  if (plan.is_causal) range.end = std::min(range.end, p + 1);
  if (plan.window_right) range.end = std::min(range.end, p + *plan.window_right + 1);
  if (plan.window_left) range.begin = std::max(range.begin, p - *plan.window_left);
  return range;
}

// An axis of extent 1 stands for every index.
index_t broadcast_offset(const InputView<4>& view, index_t b, index_t h, index_t i, index_t j) {
  const std::array<index_t, 4> at = {b, h, i, j};
  index_t offset = 0;
  for (int axis = 0; axis < 4; ++axis) offset += view.shape(axis) == 1 ? 0 : at[axis] * view.stride(axis);
  return offset;
}

template <class C>
void add_bias(const OnnxAttentionPlan& plan, const AttentionOptions& options, index_t b, index_t h,
              TensorView<C, 2> scores) {
  constexpr C kHidden = -std::numeric_limits<C>::infinity();
  const BroadcastView &bias = options.bias, &visible = options.mask.visible;
  for (index_t i = 0; i < scores.shape(0); ++i) {
    const KeyRange keys = visible_range(plan, b, i);
    for (index_t j = 0; j < scores.shape(1); ++j) {
      C added = j >= keys.begin && j < keys.end ? C{0} : kHidden;
      if (added == C{0} && bias) added = static_cast<const C*>(bias.data())[broadcast_offset(bias, b, h, i, j)];
      if (added == C{0} && visible) {
        added = static_cast<const bool*>(visible.data())[broadcast_offset(visible, b, h, i, j)] ? C{0} : kHidden;
      }
      scores(i, j) = added == kHidden ? kHidden : scores(i, j) + added;
    }
  }
}

}  // namespace

template <class C>
void write_scores(const OnnxAttentionPlan& plan, index_t mode, const AttentionOptions& options, OnnxTensor& scores) {
  const auto root = static_cast<C>(std::sqrt(plan.scale));
  const Tensor<C, 4> q = converted<C>(plan.q, root), k = converted<C>(plan.k, root);  // [B, S, H, D]
  const index_t heads_per_kv = plan.num_heads / plan.num_kv_heads;
  Tensor<C, 4> head({1, 1, plan.seqlen_q, plan.seqlen_kv});
  const TensorView<C, 2> map = head.view()[0][0];
  const std::array<index_t, 4> stride = {0, 0, plan.seqlen_kv, 1};
  for (index_t b = 0; b < plan.batch; ++b) {
    for (index_t h = 0; h < plan.num_heads; ++h) {
      matmul(q.view()[b].permute({1, 0, 2})[h], k.view()[b].permute({1, 0, 2})[h / heads_per_kv], map,
             {.threads = options.threads});
      if (mode >= 1 && plan.softcap) {
        const auto cap = static_cast<C>(*plan.softcap);
        for (index_t n = 0; n < head.size(); ++n) head.data()[n] = cap * std::tanh(head.data()[n] / cap);
      }
      if (mode == 2) add_bias(plan, options, b, h, map);
      const index_t at = (b * plan.num_heads + h) * plan.seqlen_q * plan.seqlen_kv;
      store_rounded<C>(head.view(), scores.type(), scores.bytes() + at * onnx_type_bytes(scores.type()), stride);
    }
  }
}

template void write_scores<float>(const OnnxAttentionPlan&, index_t, const AttentionOptions&, OnnxTensor&);
template void write_scores<double>(const OnnxAttentionPlan&, index_t, const AttentionOptions&, OnnxTensor&);

}  // namespace multihead
