// Attention through the installed library, by two threads: two keys of equal score, so each gives half.
#include <cstdio>
#include <multihead/attention.hpp>

int main() {
  using multihead::TensorView;
  multihead::Threads threads(2);
  const float q[] = {1, 0};        // [1, 1, 1, 2]
  const float k[] = {1, 2, 1, 3};  // [1, 2, 1, 2]
  const float v[] = {10, 20};      // [1, 2, 1, 1]
  float out[1] = {};
  multihead::attention_forward({.q = TensorView<const float, 4>(q, {1, 1, 1, 2}),
                                .k = TensorView<const float, 4>(k, {1, 2, 1, 2}),
                                .v = TensorView<const float, 4>(v, {1, 2, 1, 1})},
                               {.out = TensorView<float, 4>(out, {1, 1, 1, 1})}, {.threads = &threads});
  std::printf("%g\n", out[0]);
  return out[0] == 15 ? 0 : 1;
}
