#include "multihead/text_encoder.hpp"

#include <algorithm>

#include "models/folder_readers.hpp"
#include "text/pipeline.hpp"

namespace multihead {
namespace {

Encoding as_given(Encoding encoding, const Tokenizer& tokenizer) {
  if (!tokenizer.uses_token_types()) std::ranges::fill(encoding.type_ids, 0);
  return encoding;
}

}  // namespace

Encoding TextEncoder::encode(std::string_view text) const { return as_given(tokenizer.encode(text, cut), tokenizer); }

Encoding TextEncoder::encode_pair(std::string_view text, std::string_view pair) const {
  return as_given(tokenizer.encode_pair(text, pair, cut), tokenizer);
}

TextEncoder load_text_encoder(const std::filesystem::path& path, const TextEncoderOptions& options) {
  const ModelFolder folder(path, "load_text_encoder");
  // Small files first, so that errors in them are reported without waiting for the weights.
  const EncoderConfig config = read_encoder_config(folder);
  Tokenizer tokenizer = load_tokenizer(folder);
  const SentencePooling pooling = options.sentence_vectors ? read_sentence_pooling(folder) : SentencePooling{};
  const index_t longest =
      pooling.max_tokens > 0 ? std::min(pooling.max_tokens, config.max_tokens()) : config.max_text_tokens;
  const EncodeOptions cut{.max_length = longest, .truncation_side = tokenizer.truncation_side()};
  return {.tokenizer = std::move(tokenizer), .encoder = read_encoder(folder, config), .pooling = pooling, .cut = cut};
}

}  // namespace multihead
