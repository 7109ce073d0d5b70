// Attention on buffers that your program already has: 4 tokens, 2 heads of width 3, layout [B, S, H, D].
#include <cstdio>
#include <vector>

#include "multihead/attention.hpp"

int main() {
  using namespace multihead;
  const index_t batch = 1, seqlen = 4, num_heads = 2, head_dim = 3;

  std::vector<float> x(batch * seqlen * num_heads * head_dim), out(x.size());
  for (std::size_t n = 0; n < x.size(); ++n) x[n] = static_cast<float>(n * 7 % 5) - 2;

  // Views lend the buffers; nothing is copied. bhsd() is for head after head, and pointers do as well. Here q = k = v =
  // x, without the learned projections.
  const TensorView x_view = bshd(x, batch, seqlen, num_heads, head_dim);
  const TensorView out_view = bshd(out, batch, seqlen, num_heads, head_dim);
  attention_forward({.q = x_view, .k = x_view, .v = x_view}, {.out = out_view});

  for (index_t i = 0; i < seqlen; ++i) {
    for (index_t h = 0; h < num_heads; ++h) {
      std::printf("token %d head %d  ", static_cast<int>(i), static_cast<int>(h));
      for (index_t d = 0; d < head_dim; ++d) std::printf(" %7.4f", out_view(0, i, h, d));
      std::printf("\n");
    }
  }
}
// Prints:
//   token 0 head 0   -1.9784  0.0062  1.9754
//   token 0 head 1   -0.7622  1.2170 -1.7252
//   token 1 head 0   -0.3630  1.6059 -1.3077
//   token 1 head 1    0.9245 -1.9159  0.0096
//   token 2 head 0    1.9452 -0.9705  0.9937
//   token 2 head 1   -1.9815  0.0031  1.9723
//   token 3 head 0   -0.7660  1.2275 -1.7288
//   token 3 head 1   -0.3730  1.6095 -1.3175
