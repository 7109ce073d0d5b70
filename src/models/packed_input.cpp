#include "models/packed_input.hpp"

#include <algorithm>

#include "core/require.hpp"

namespace multihead {
namespace {

Tensor<index_t, 1> read_offsets(const EncoderInput& input, const EncoderConfig& config, const char* function) {
  const index_t batch = input.token_ids.shape(0), seqlen = input.token_ids.shape(1);
  require(bool(input.token_ids), function, "token_ids must be given");
  require(!input.lengths || input.lengths.shape(0) == batch, function, "lengths must be [batch]",
          {{"lengths", input.lengths.shape(0)}, {"batch", batch}});
  require(!input.token_types || input.token_types.shape() == input.token_ids.shape(), function,
          "token_types must have the shape of token_ids",
          {{"token_types", shape_text(input.token_types.shape().data(), 2)},
           {"token_ids", shape_text(input.token_ids.shape().data(), 2)}});
  Tensor<index_t, 1> offsets({batch + 1});
  for (index_t b = 0; b < batch; ++b) {
    const index_t length = input.lengths ? input.lengths(b) : seqlen;
    require(length >= 0 && length <= seqlen, function, "a length must be in [0, seqlen]",
            {{"b", b}, {"length", length}, {"seqlen", seqlen}});
    require(length <= config.max_tokens(), function, "a sequence must be at most max_tokens long",
            {{"b", b}, {"length", length}, {"max_tokens", config.max_tokens()}}, "cut the text");
    offsets(b + 1) = offsets(b) + length;
  }
  return offsets;
}

void check_row(const char* function, const char* rule, index_t value, index_t num_rows, index_t b, index_t i) {
  if (value >= 0 && value < num_rows) return;
  require(false, function, rule, {{"value", value}, {"num_rows", num_rows}, {"b", b}, {"i", i}});
}

}  // namespace

PackedInput::PackedInput(const EncoderInput& input, const EncoderConfig& config, const char* function)
    : offsets(read_offsets(input, config, function)) {
  const index_t num_tokens_in_all = offsets(offsets.size() - 1);
  token_ids = Tensor<index_t, 1>({num_tokens_in_all});
  token_types = Tensor<index_t, 1>({num_tokens_in_all});
  positions = Tensor<index_t, 1>({num_tokens_in_all});
  for (index_t b = 0; b < batch(); ++b) {
    index_t next = config.positions_after_pad ? config.pad_token_id + 1 : 0;
    for (index_t i = 0; i < length(b); ++i) {
      const index_t t = begin(b) + i;
      token_ids(t) = input.token_ids(b, i);
      token_types(t) = input.token_types ? input.token_types(b, i) : 0;
      check_row(function, "a token id must have a row in the word embedding", token_ids(t), config.vocab_size, b, i);
      check_row(function, "a token type must have a row in its embedding", token_types(t),
                std::max<index_t>(config.num_token_types, 1), b, i);
      const bool uncounted = config.positions_after_pad && token_ids(t) == config.pad_token_id;
      positions(t) = uncounted ? config.pad_token_id : next++;
    }
  }
}

index_t PackedInput::longest() const {
  index_t longest = 0;
  for (index_t b = 0; b < batch(); ++b) longest = std::max(longest, length(b));
  return longest;
}

TokenBatch pad_batch(std::span<const std::vector<index_t>> sequences, index_t pad_id) {
  index_t longest = 0;
  for (const auto& ids : sequences) longest = std::max(longest, static_cast<index_t>(ids.size()));
  const auto batch = static_cast<index_t>(sequences.size());
  TokenBatch result{Tensor<index_t, 2>({batch, longest}), Tensor<index_t, 1>({batch})};
  std::fill_n(result.token_ids.data(), result.token_ids.size(), pad_id);
  for (index_t b = 0; b < batch; ++b) {
    const auto& ids = sequences[static_cast<std::size_t>(b)];
    std::ranges::copy(ids, result.token_ids.data() + b * longest);
    result.lengths(b) = static_cast<index_t>(ids.size());
  }
  return result;
}

}  // namespace multihead
