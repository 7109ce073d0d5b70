// y = x W^T + b through the installed library, by two threads.
#include <cstdio>
#include <multihead/matmul.hpp>

int main() {
  multihead::Threads threads(2);
  const float x[] = {1, 2, 3};
  const float w[] = {1, 0, 1, 0, 1, 0};  // [2, 3]
  const float b[] = {10, 20};
  float y[2] = {};
  multihead::matmul(multihead::TensorView<const float, 2>(x, {1, 3}), multihead::TensorView<const float, 2>(w, {2, 3}),
                    multihead::TensorView<float, 2>(y, {1, 2}),
                    {.bias = multihead::TensorView<const float, 1>(b, {2}), .threads = &threads});
  std::printf("%g %g\n", y[0], y[1]);
  return y[0] == 14 && y[1] == 22 ? 0 : 1;
}
