// A plug-in that holds the library: attention by two threads, and an error thrown and caught.
#include "multihead/attention.hpp"
#include "multihead/tensor.hpp"
#include "multihead/threads.hpp"

/// 0 when all went well.
extern "C" __attribute__((visibility("default"))) int run_plugin() {
  using namespace multihead;
  Threads threads(2);
  Tensor<float, 4> x({1, 500, 16, 64}), out({1, 500, 16, 64});  // 2 MB each
  for (index_t n = 0; n < x.size(); ++n) x.data()[n] = static_cast<float>(n % 3);
  attention_forward({.q = x.view(), .k = x.view(), .v = x.view()}, {.out = out.view()}, {.threads = &threads});
  const Tensor<float, 4> narrow({1, 500, 16, 32});
  try {
    attention_forward({.q = x.view(), .k = narrow.view(), .v = x.view()}, {.out = out.view()});
  } catch (const ShapeError&) {
    return out(0, 0, 0, 0) > 0 ? 0 : 1;
  }
  return 2;
}
