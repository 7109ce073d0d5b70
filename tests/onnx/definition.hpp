// ONNX Attention by the text of the standard: every mask is built and added, one loop an index, in the type Real.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "multihead/onnx/operators.hpp"
#include "onnx/values.hpp"

namespace multihead::test {

using std::exp;
using std::sqrt;
using std::tanh;

template <class Real>
struct OnnxDefinition {
  // [B, Hq, Sq, Dv] and [B, Hq, Sq, total]: the four modes of qk_matmul_output.
  std::vector<Real> y, raw, capped, biased, probs;

  OnnxDefinition(const OnnxAttentionInput& in, const OnnxAttentionOptions& options)
      : rank4_(in.q.rank() == 4),
        batch_(in.q.shape[0]),
        hq_(rank4_ ? in.q.shape[1] : *options.q_num_heads),
        hkv_(rank4_ ? in.k.shape[1] : *options.kv_num_heads),
        sq_(rank4_ ? in.q.shape[2] : in.q.shape[1]),
        past_(in.past_key ? in.past_key.shape[2] : 0),
        total_(past_ + (rank4_ ? in.k.shape[2] : in.k.shape[1])),
        d_(rank4_ ? in.q.shape[3] : in.q.shape[2] / hq_),
        dv_(rank4_ ? in.v.shape[3] : in.v.shape[2] / hkv_) {
    const auto q = heads(in.q, {}, hq_, sq_, d_), k = heads(in.k, in.past_key, hkv_, total_, d_),
               v = heads(in.v, in.past_value, hkv_, total_, dv_);
    const auto mask = onnx_values<Real>(in.attn_mask);
    const auto nonpad = onnx_values<index_t>(in.nonpad_kv_seqlen);
    const Real root = sqrt(static_cast<Real>(options.scale.value_or(1 / std::sqrt(static_cast<double>(d_)))));
    const auto cap = static_cast<Real>(options.softcap);
    for (index_t b = 0; b < batch_; ++b) {
      const index_t length = nonpad.empty() ? total_ : nonpad[static_cast<std::size_t>(b)];
      const index_t offset = nonpad.empty() ? past_ : length - sq_;
      for (index_t h = 0; h < hq_; ++h) {
        const index_t g = h / (hq_ / hkv_);
        for (index_t i = 0; i < sq_; ++i) {
          Real bias_max = -kInfinity, biased_max = -kInfinity;
          const std::size_t row = biased.size();
          for (index_t j = 0; j < total_; ++j) {
            Real score = 0;
            for (index_t d = 0; d < d_; ++d) {
              score += root * at(q, hq_, sq_, d_, b, h, i, d) * (root * at(k, hkv_, total_, d_, b, g, j, d));
            }
            raw.push_back(score);
            if (cap > 0) score = cap * tanh(score / cap);
            capped.push_back(score);
            Real bias = mask_at(in.attn_mask, mask, options.opset, b, h, i, j);
            const index_t p = offset + i;
            if (options.is_causal && j > p) bias = -kInfinity;
            if (options.left_window_size >= 0 && j - p < -options.left_window_size) bias = -kInfinity;
            if (options.right_window_size >= 0 && j - p > options.right_window_size) bias = -kInfinity;
            if (j >= length) bias = -kInfinity;
            biased.push_back(score + bias);
            bias_max = std::max(bias_max, bias);
            biased_max = std::max(biased_max, biased.back());
          }
          Real sum = 0;
          for (index_t j = 0; j < total_; ++j) sum += exp(biased[row + j] - biased_max);
          for (index_t j = 0; j < total_; ++j) {
            probs.push_back(bias_max == -kInfinity ? 0 : exp(biased[row + j] - biased_max) / sum);
          }
          for (index_t d = 0; d < dv_; ++d) {
            Real out = 0;
            for (index_t j = 0; j < total_; ++j) out += probs[row + j] * at(v, hkv_, total_, dv_, b, g, j, d);
            y.push_back(out);
          }
        }
      }
    }
    if (!rank4_) y = tokens_first(y);
  }

 private:
  static constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

  static Real at(const std::vector<Real>& x, index_t n1, index_t n2, index_t n3, index_t i0, index_t i1, index_t i2,
                 index_t i3) {
    return x[static_cast<std::size_t>(((i0 * n1 + i1) * n2 + i2) * n3 + i3)];
  }

  // past ++ now as [B, H, S, D].
  std::vector<Real> heads(const OnnxView& now, const OnnxView& past, index_t num_heads, index_t seqlen, index_t width) {
    const auto fresh = onnx_values<Real>(now), old = onnx_values<Real>(past);
    const index_t num_old = past ? past.shape[2] : 0, num_fresh = seqlen - num_old;
    std::vector<Real> all;
    for (index_t b = 0; b < batch_; ++b)
      for (index_t h = 0; h < num_heads; ++h)
        for (index_t s = 0; s < seqlen; ++s)
          for (index_t d = 0; d < width; ++d) {
            if (s < num_old) {
              all.push_back(at(old, num_heads, num_old, width, b, h, s, d));
            } else if (rank4_) {
              all.push_back(at(fresh, num_heads, num_fresh, width, b, h, s - num_old, d));
            } else {
              all.push_back(at(fresh, num_fresh, num_heads, width, b, s - num_old, h, d));
            }
          }
    return all;
  }

  // The bias of attn_mask: right-aligned, padded with -inf along the last axis from version 24 on.
  Real mask_at(const OnnxView& view, const std::vector<Real>& mask, index_t opset, index_t b, index_t h, index_t i,
               index_t j) const {
    if (!view) return 0;
    const index_t index[4] = {b, h, i, j};
    const int missing = 4 - view.rank();
    std::size_t at = 0;
    for (int axis = 0; axis < view.rank(); ++axis) {
      const index_t extent = view.shape[axis], wanted = index[missing + axis];
      const bool last = axis == view.rank() - 1;
      if (last && opset >= 24 && wanted >= extent) return -kInfinity;
      at = at * static_cast<std::size_t>(extent) + static_cast<std::size_t>(extent == 1 ? 0 : wanted);
    }
    return view.type == OnnxType::boolean ? (mask[at] != 0 ? 0 : -kInfinity) : mask[at];
  }

  std::vector<Real> tokens_first(const std::vector<Real>& x) const {
    std::vector<Real> result;
    for (index_t b = 0; b < batch_; ++b)
      for (index_t i = 0; i < sq_; ++i)
        for (index_t h = 0; h < hq_; ++h)
          for (index_t d = 0; d < dv_; ++d) result.push_back(at(x, hq_, sq_, dv_, b, h, i, d));
    return result;
  }

  bool rank4_;
  index_t batch_, hq_, hkv_, sq_, past_, total_, d_, dv_;
};

}  // namespace multihead::test
