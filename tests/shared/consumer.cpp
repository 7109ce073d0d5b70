// A program on the shared library: functions, classes, templates and exceptions come through. All keys are equal, so
// each of the two visible ones gives half of its value.
#include <cstdio>
#include <cstring>
#include <vector>

#include "multihead/multihead.hpp"

int main() {
  using namespace multihead;
  set_instruction_set(instruction_sets().back());
  Threads threads(2);
  std::vector<float> q(2), k(6, 1.0f), v{10, 20, 60}, out(1);
  attention_forward({.q = bhsd(q, 1, 1, 1, 2), .k = bhsd(k, 1, 1, 3, 2), .v = bhsd(v, 1, 1, 3, 1)},
                    {.out = bhsd(out, 1, 1, 1, 1)}, {.mask = {.window_left = 1}, .threads = &threads});
  if (out[0] != 40) return std::printf("must give 40, got %g\n", static_cast<double>(out[0])), 1;

  nn::MultiHeadAttention<double> layer({.d_model = 6, .num_heads = 2});
  layer.initialize(1);
  const Tensor<double, 3> x({1, 4, 6});
  Tensor<double, 3> y({1, 4, 6});
  layer.forward({.x_q = x}, {.y = y});
  KvCache cache = KvCache::contiguous({.num_sequences = 1}, 8);
  try {
    cache.truncate_to(0, 3);
  } catch (const ShapeError& error) {
    std::printf("%s %s: %s\n", version(), instruction_set().c_str(), error.what());
    return std::strstr(error.what(), "KvCache::truncate_to") == nullptr;
  }
  return std::printf("no exception\n"), 1;
}
