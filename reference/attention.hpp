// Attention by its definition: one loop an index, no tiles, no tricks. The fast core is held to it.
//
//   raw[i,j]   = scale * dot(q[b,i,h,:], k[b,j,g,:])                        g = kv head of h
//   score[i,j] = cap(raw[i,j]) + bias[b,h,i,j] - slope[h] * |i + offset_b - j|      cap(x) = c * tanh(x / c)
//   prob[i,j]  = exp(score[i,j] - row_max[i]) / row_sum[i]                  over the visible j, and the sink
//   out[i,:]   = sum_j kept[i,j] / (1 - p) * prob[i,j] * v[b,j,g,:]
//
// The functions take what attention_forward and attention_backward take, in any dtype, and check nothing.
// Real is the type of all arithmetic:
//   double       the definition for f32, bf16 and f16
//   float        "a plain f32 implementation", whose error the core may exceed by a small factor only
//   long double  the definition for f64, for which double is the plain implementation
//   Rounding<Real>  writes, instead of each result, the standard deviation that rounding gives it in Real
// Outputs may be of any floating dtype; results are rounded when stored, as a plain implementation would.
#pragma once

#include "multihead/attention.hpp"

namespace multihead::reference {

template <class Real>
void attention_forward(const AttentionInput& input, const AttentionOutput& output,
                       const AttentionOptions& options = {});

/// For Rounding: the deviations of what the forward has saved, and what storing `out` adds. Absent ones are 0.
struct SavedDeviations {
  InputView<4> out, out_storage;
  InputView<3> row_max, row_sum;
};

//   delta[i]    = dot(dout[i,:], out[i,:])
//   dprob[i,j]  = kept[i,j] / (1 - p) * dot(dout[i,:], v[j,:])
//   dscore[i,j] = prob[i,j] * (dprob[i,j] - delta[i] + dlse[i])
//   dsink[h]    = sum_i prob_sink[i] * (dlse[i] - delta[i])
template <class Real>
void attention_backward(const AttentionBackwardInput& input, const AttentionGradients& gradients,
                        const AttentionOptions& options = {}, const SavedDeviations& deviations = {});

/// Two partial results over disjoint keys, joined by their lse.
template <class Real>
void attention_merge(const PartialAttention& a, const PartialAttention& b, const AttentionOutput& output);

}  // namespace multihead::reference
