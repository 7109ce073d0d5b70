// Text to token ids and back, as the tokenizer.json of a checkpoint describes it.
//
//   text -> added tokens -> normalizer -> pre-tokenizer -> model -> post-processor -> ids
//           "[MASK]"        "É" -> "e"    words            pieces   [CLS] .. [SEP]
//
// Every token keeps the bytes of the original text it came from, whatever the steps between did to the characters.
// Handled today: WordPiece (the BERT family). Ids, offsets, word ids and masks equal those of the Hugging Face
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

/// [begin, end) of a text. Counts bytes of UTF-8 unless said otherwise.
struct TextSpan {
  index_t begin = 0;
  index_t end = 0;

  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

enum class Side : std::uint8_t { left, right };

struct EncodeOptions {
  bool add_special_tokens = true;          // what the post-processor adds, as [CLS] and [SEP]
  std::optional<index_t> max_length = {};  // tokens, added ones included; unset = nothing is cut
  Side truncation_side = Side::right;      // the end that is cut
};

struct DecodeOptions {
  bool skip_special_tokens = true;
};

/// The tokens of a text, or of a text and its pair. Entry t of every vector speaks of token t.
struct Encoding {
  std::vector<index_t> ids;
  std::vector<std::string> tokens;                   // as in the vocabulary: "em", "##bed"
  std::vector<TextSpan> offsets;                     // in the token's text; {0, 0} for a token that was added
  std::vector<std::optional<index_t>> word_ids;      // counts the words of the token's text; unset if added
  std::vector<std::optional<index_t>> sequence_ids;  // 0 = text, 1 = pair; unset if added
  std::vector<std::uint8_t> special_tokens_mask;     // 1 if added. A "[SEP]" that stands in the text has 0
  std::vector<index_t> type_ids;
  index_t num_tokens_uncut = 0;  // what num_tokens() would be without max_length

  index_t num_tokens() const { return static_cast<index_t>(ids.size()); }
  bool truncated() const { return num_tokens() < num_tokens_uncut; }
};

/// What a file proposes about long texts. encode() cuts by EncodeOptions alone, never by this.
struct TruncationProposal {
  index_t max_length = 0;
  Side side = Side::right;
};

/// What a file proposes about batches of unequal length. encode() never pads.
struct PaddingProposal {
  index_t id = 0;
  index_t type_id = 0;
  std::string token = {};
  std::optional<index_t> length = {};  // pad to this many tokens; unset = to the longest of the batch
  Side side = Side::right;
};

/// Immutable and cheap to copy; one object may serve many threads.
class MULTIHEAD_API Tokenizer {
 public:
  /// Reads a tokenizer.json alone, or a model folder: its tokenizer.json or, failing that, its vocab.txt as a BERT
  /// tokenizer; with tokenizer_config.json, special_tokens_map.json and added_tokens.json. What they say of tokens is
  /// honoured or refused; docs/checkpoints.md lists the settings.
  ///
  /// @throws CheckpointError   if a file is missing or damaged, or files contradict themselves or each other
  /// @throws UnsupportedError  if they ask for something that is not handled
  static Tokenizer load(const std::filesystem::path& file_or_folder);

  /// @param text  UTF-8; may hold NUL and may be empty
  /// @throws Error       if the text is not UTF-8; names the byte and its position
  /// @throws ShapeError  if max_length has no room for the tokens that are always added
  ///
  /// Cost  linear in the text: a word is looked up in at most max_input_chars_per_word * longest_token steps.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// Two texts as one input, as "[CLS] text [SEP] pair [SEP]". max_length cuts the longer one first.
  Encoding encode_pair(std::string_view text, std::string_view pair, const EncodeOptions& options = {}) const;

  /// @throws ShapeError  if an id is not in the vocabulary
  std::string decode(std::span<const index_t> ids, const DecodeOptions& options = {}) const;

  std::optional<index_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(index_t id) const;

  /// Largest id + 1: the rows that an embedding needs at least.
  index_t vocab_size() const;

  const std::optional<TruncationProposal>& truncation() const;
  const std::optional<PaddingProposal>& padding() const;

  /// The end of a long text that the files want cut: truncation_side of tokenizer_config.json, else of tokenizer.json.
  Side truncation_side() const;
  /// Whether the model is to be given type_ids: false where tokenizer_config.json lists inputs without them. They are 0
  /// to a model then.
  bool uses_token_types() const;

  struct MULTIHEAD_LOCAL Pipeline;  // the steps; src/text/pipeline.hpp

 private:
  friend Tokenizer load_tokenizer(const ModelFolder& folder);
  explicit Tokenizer(std::shared_ptr<const Pipeline> pipeline);

  std::shared_ptr<const Pipeline> pipeline_;
};

/// Byte offsets of `text` as offsets in code points, which is how Python counts.
///
/// @throws Error       if the text is not UTF-8
/// @throws ShapeError  if an offset lies outside the text or inside a code point
MULTIHEAD_API std::vector<TextSpan> code_point_offsets(std::string_view text, std::span<const TextSpan> offsets);

}  // namespace multihead
