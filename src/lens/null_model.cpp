#include "multihead/lens/null_model.hpp"

#include <algorithm>
#include <vector>

#include "core/splitmix64.hpp"

namespace multihead::lens {
namespace {

class Shuffle {
 public:
  explicit Shuffle(std::uint64_t seed) : state_(seed) {}

  template <class Tensor>
  void operator()(const Tensor& from, Tensor& to) {
    if (from.size() == 0) return;
    std::copy_n(from.data(), from.size(), to.data());
    for (auto n = static_cast<std::uint64_t>(from.size()) - 1; n > 0; --n, state_ += kSplitMix64Step) {
      std::swap(to.data()[n], to.data()[splitmix64(state_) % (n + 1)]);
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace

Encoder shuffled_encoder(const Encoder& encoder, std::uint64_t seed) {
  std::vector<nn::RemainingHeads> heads;
  for (const EncoderLayer& layer : encoder.layers()) heads.push_back(layer.attention.heads());
  Encoder result(encoder.config(), heads);
  Shuffle shuffle(seed);
  const EncoderEmbeddings& embeddings = encoder.embeddings();
  shuffle(embeddings.word.weight, result.embeddings().word.weight);
  shuffle(embeddings.position.weight, result.embeddings().position.weight);
  shuffle(embeddings.token_type.weight, result.embeddings().token_type.weight);
  shuffle(embeddings.norm.weight, result.embeddings().norm.weight);
  shuffle(embeddings.norm.bias, result.embeddings().norm.bias);
  for (std::size_t n = 0; n < encoder.layers().size(); ++n) {
    const EncoderLayer& from = encoder.layers()[n];
    EncoderLayer& to = result.layers()[n];
    const auto& a = from.attention.parameters();
    auto& b = to.attention.parameters();
    shuffle(a.w_q, b.w_q), shuffle(a.w_k, b.w_k), shuffle(a.w_v, b.w_v), shuffle(a.w_o, b.w_o);
    shuffle(a.b_q, b.b_q), shuffle(a.b_k, b.b_k), shuffle(a.b_v, b.b_v), shuffle(a.b_o, b.b_o);
    shuffle(from.attention_norm.weight, to.attention_norm.weight);
    shuffle(from.attention_norm.bias, to.attention_norm.bias);
    shuffle(from.feed_forward.up.weight, to.feed_forward.up.weight);
    shuffle(from.feed_forward.up.bias, to.feed_forward.up.bias);
    shuffle(from.feed_forward.down.weight, to.feed_forward.down.weight);
    shuffle(from.feed_forward.down.bias, to.feed_forward.down.bias);
    shuffle(from.feed_forward_norm.weight, to.feed_forward_norm.weight);
    shuffle(from.feed_forward_norm.bias, to.feed_forward_norm.bias);
  }
  return result;
}

}  // namespace multihead::lens
