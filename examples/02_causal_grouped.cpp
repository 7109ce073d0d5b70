// Decoder attention: each token sees itself and what came before; 4 query heads read 2 key/value heads.
// Also asked for: how much each query looked at each key (probs), and the log-sum-exp of its scores (lse).
#include <cmath>
#include <cstdio>

#include "multihead/attention.hpp"
#include "multihead/tensor.hpp"

int main() {
  using namespace multihead;
  const index_t batch = 1, seqlen = 5, num_heads = 4, num_kv_heads = 2, head_dim = 8;
  Tensor<float, 4> q({batch, seqlen, num_heads, head_dim});
  Tensor<float, 4> k({batch, seqlen, num_kv_heads, head_dim});
  Tensor<float, 4> v({batch, seqlen, num_kv_heads, head_dim});
  for (index_t n = 0; n < q.size(); ++n) q.data()[n] = std::sin(0.7f * static_cast<float>(n));
  for (index_t n = 0; n < k.size(); ++n) k.data()[n] = std::cos(0.3f * static_cast<float>(n));
  for (index_t n = 0; n < v.size(); ++n) v.data()[n] = static_cast<float>(n % 11);

  Tensor<float, 4> out({batch, seqlen, num_heads, head_dim});
  Tensor<float, 4> probs({batch, num_heads, seqlen, seqlen});
  Tensor<float, 3> lse({batch, num_heads, seqlen});
  Threads threads(2);  // the result is the same bits for any number
  attention_forward({.q = q, .k = k, .v = v}, {.out = out, .probs = probs, .lse = lse},
                    {.mask = {.causal = Causal::bottom_right}, .threads = &threads});

  const index_t h = 3;  // reads kv head 3 / (4 / 2) = 1
  for (index_t i = 0; i < seqlen; ++i) {
    std::printf("query %d  probs", static_cast<int>(i));
    for (index_t j = 0; j < seqlen; ++j) std::printf(" %.3f", probs(0, h, i, j));
    std::printf("   lse %.3f\n", lse(0, h, i));
  }
}
// Prints:
//   query 0  probs 1.000 0.000 0.000 0.000 0.000   lse 0.100
//   query 1  probs 0.323 0.677 0.000 0.000 0.000   lse 1.305
//   query 2  probs 0.253 0.214 0.533 0.000 0.000   lse 0.949
//   query 3  probs 0.420 0.274 0.130 0.175 0.000   lse 1.468
//   query 4  probs 0.097 0.251 0.396 0.165 0.090   lse 1.653
