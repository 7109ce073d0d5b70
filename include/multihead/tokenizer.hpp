// Text to token ids and back, as the tokenizer.json of a checkpoint describes it.
//
//   text -> added tokens -> normalizer -> pre-tokenizer -> model -> post-processor -> ids
//           "[MASK]"        "É" -> "e"    words            pieces   [CLS] .. [SEP]
//
// Every token comes with its byte range in the original text, whatever the steps in between did to the characters.
// Supported model: WordPiece (the BERT family). Ids, offsets, word ids and masks equal those of the Hugging Face
// `tokenizers` library, which reads the same file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "multihead/types.hpp"

namespace multihead {

class ModelFolder;

/// The range [begin, end) of a text, in bytes of UTF-8 unless stated otherwise.
struct TextSpan {
  index_t begin = 0;
  index_t end = 0;

  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

enum class Side : std::uint8_t { left, right };

struct EncodeOptions {
  bool add_special_tokens = true;          // those of the post-processor, such as [CLS] and [SEP]
  std::optional<index_t> max_length = {};  // tokens, special ones included; unset = no truncation
  Side truncation_side = Side::right;      // the end at which long texts are cut
};

struct DecodeOptions {
  bool skip_special_tokens = true;
};

/// The tokens of a text, or of a text and its pair. Entry t of every vector belongs to token t.
struct Encoding {
  std::vector<index_t> ids;
  std::vector<std::string> tokens;                   // as in the vocabulary: "em", "##bed"
  std::vector<TextSpan> offsets;                     // in the text or the pair; {0, 0} for an added token
  std::vector<std::optional<index_t>> word_ids;      // index of the word in the text or pair; unset if added
  std::vector<std::optional<index_t>> sequence_ids;  // 0 = text, 1 = pair; unset if added
  std::vector<std::uint8_t> special_tokens_mask;     // 1 if added; 0 for a "[SEP]" that occurs in the text
  std::vector<index_t> type_ids;
  index_t num_tokens_uncut = 0;  // num_tokens() without the truncation to max_length

  index_t num_tokens() const { return static_cast<index_t>(ids.size()); }
  bool truncated() const { return num_tokens() < num_tokens_uncut; }
};

/// The truncation that a file suggests. encode() does not use it, but only EncodeOptions.
struct TruncationProposal {
  index_t max_length = 0;
  Side side = Side::right;
};

/// The padding that a file suggests for batches of different lengths. encode() does not pad.
struct PaddingProposal {
  index_t id = 0;
  index_t type_id = 0;
  std::string token = {};
  std::optional<index_t> length = {};  // tokens to pad to; unset = the longest of the batch
  Side side = Side::right;
};

/// Immutable and cheap to copy. Several threads may use one object at once.
class MULTIHEAD_API Tokenizer {
 public:
  /// Reads one tokenizer.json, or a model folder: its tokenizer.json or, if there is none, its vocab.txt as a BERT
  /// tokenizer, with tokenizer_config.json, special_tokens_map.json and added_tokens.json. Settings about tokens are
  /// either applied or refused, never ignored; docs/checkpoints.md lists them.
  ///
  /// @throws CheckpointError   if a file is missing or damaged, or files contradict themselves or each other
  /// @throws UnsupportedError  if they require something that is not supported
  static Tokenizer load(const std::filesystem::path& file_or_folder);

  /// @param text  UTF-8; may hold NUL and may be empty
  /// @throws Error       if the text is not UTF-8; the message names the byte and its position
  /// @throws ShapeError  if max_length is less than the number of added special tokens
  ///
  /// Cost  linear in the text: a word takes at most max_input_chars_per_word * (longest token) look-ups.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// Two texts as one input, for example "[CLS] text [SEP] pair [SEP]". Truncation shortens the longer one first.
  Encoding encode_pair(std::string_view text, std::string_view pair, const EncodeOptions& options = {}) const;

  /// @throws ShapeError  if an id is not in the vocabulary
  std::string decode(std::span<const index_t> ids, const DecodeOptions& options = {}) const;

  std::optional<index_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(index_t id) const;

  /// Largest id + 1: the number of rows that an embedding needs at least.
  index_t vocab_size() const;

  const std::optional<TruncationProposal>& truncation() const;
  const std::optional<PaddingProposal>& padding() const;

  /// The end at which the files cut long texts: truncation_side of tokenizer_config.json, else of tokenizer.json.
  Side truncation_side() const;
  /// Whether the model takes type_ids: false if tokenizer_config.json lists its inputs without them. A model that
  /// does not take them is given 0.
  bool uses_token_types() const;

  struct MULTIHEAD_LOCAL Pipeline;  // the steps; src/text/pipeline.hpp

 private:
  friend Tokenizer load_tokenizer(const ModelFolder& folder);
  explicit Tokenizer(std::shared_ptr<const Pipeline> pipeline);

  std::shared_ptr<const Pipeline> pipeline_;
};

/// Converts byte offsets in `text` to offsets in code points, as Python uses them.
///
/// @throws Error       if the text is not UTF-8
/// @throws ShapeError  if an offset lies outside the text or inside a code point
MULTIHEAD_API std::vector<TextSpan> code_point_offsets(std::string_view text, std::span<const TextSpan> offsets);

}  // namespace multihead
