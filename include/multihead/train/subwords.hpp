// Subword units: text to pieces of a vocabulary that is learned from text, and back.
//
//   encode("Ein Hund läuft.")  ->  [▁Ein, ▁Hund, ▁läuf, t, .] as ids  ->  decode: "Ein Hund läuft."
//
// Byte-pair encoding (Sennrich et al. 2016) by the SentencePiece library (Kudo & Richardson 2018). Ids 0 .. 3 are pad,
// unk, bos and eos. No text encodes to pad, bos or eos. decode(encode(text)) is the text as `normalization` leaves it:
// by default NFKC, with runs of white space as one space. U+2581, with which pieces write a space, becomes a space.
// The same lines and options give the same vocabulary.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "multihead/train/text_lines.hpp"

namespace multihead::train {

inline constexpr index_t kPad = 0, kUnk = 1, kBos = 2, kEos = 3, kNumSpecialPieces = 4;

struct SubwordOptions {
  index_t vocab_size = 8000;               ///< special pieces included; in [5, 1000000]
  bool byte_fallback = false;              ///< 256 pieces for the bytes of characters that no line has: none is unk
  std::string normalization = "nmt_nfkc";  ///< or "nfkc", "nmt_nfkc_cf", "nfkc_cf" (these fold case), "identity"
  index_t max_line_bytes = 4192;           ///< longer lines are left out of the training
};

/// Lines of all texts together, by what became of them.
struct SubwordCounts {
  index_t lines = 0;  ///< all
  index_t used = 0;
  index_t empty = 0;
  index_t too_long = 0;  ///< more than max_line_bytes
  index_t reserved = 0;  ///< hold U+2585, which SentencePiece keeps for itself
};

/// Immutable and cheap to copy. Several threads may use one object at once.
class MULTIHEAD_API Subwords {
 public:
  /// Learns a vocabulary from the lines of all texts: from source and target, one vocabulary for both.
  /// @param counts  if not null, how many lines were used and left out
  /// @throws ShapeError  if no line can be used, the vocabulary is too small for the characters of the lines, or larger
  ///                     than what they carry; the message names the size that would do
  /// Cost    grows a little faster than the text: 60,000 lines and 8,000 pieces take seconds on one thread.
  static Subwords train(std::span<const TextLines> texts, const SubwordOptions& options = {},
                        SubwordCounts* counts = nullptr);

  /// From what bytes() gave. @throws CheckpointError  if it is no SentencePiece model with these special pieces
  static Subwords from_bytes(std::string bytes);

  /// The model as one string, to be stored with what was trained on its ids.
  const std::string& bytes() const;
  index_t vocab_size() const;

  /// Without bos and eos; empty for white space alone. @throws Error  if the text is not UTF-8
  std::vector<index_t> encode(std::string_view text) const;

  /// Leaves out pad, bos and eos; unk becomes " U+2047 ". @throws ShapeError  if an id is not in [0, vocab_size)
  std::string decode(std::span<const index_t> ids) const;

  /// As in the vocabulary: "▁Hund". @throws ShapeError  if the id is not in [0, vocab_size)
  std::string piece(index_t id) const;

 private:
  struct MULTIHEAD_LOCAL Model;
  explicit Subwords(std::shared_ptr<const Model> model);

  std::shared_ptr<const Model> model_;
};

}  // namespace multihead::train
