#include "core/require.hpp"
#include "multihead/attention.hpp"

namespace multihead {

// Weak: gives way to the real one.
__attribute__((weak)) void attention_backward(const AttentionBackwardInput&, const AttentionGradients&,
                                              const AttentionOptions&) {
  require<UnsupportedError>(false, "attention_backward", "gradients are not handled yet");
}

}  // namespace multihead
