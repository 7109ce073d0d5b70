// Pairs of sentences as pieces, and batches of them: grouped by length, laid end to end without padding.
//
//   source_ids  [total_s]  s1 s2 </s> | s1 </s> | ..       sentence b: [source_offsets[b], source_offsets[b + 1])
//   target_in   [total_t]  <s> t1 t2  | <s> t1  | ..       target_offsets likewise
//   target_out  [total_t]  t1 t2 </s> | t1 </s> | ..
//
// The order of an epoch is a function of (seed, epoch) alone, the same on every machine, so (seed, epoch, index of the
// batch) is all that a training must remember to go on.
#pragma once

#include <cstdint>

#include "multihead/train/subwords.hpp"

namespace multihead::train {

struct ParallelOptions {
  index_t max_pieces = 256;  ///< of a side, without bos and eos; pairs with more are left out
};

/// Pairs by what became of them.
struct ParallelCounts {
  index_t lines = 0;  ///< all
  index_t kept = 0;
  index_t empty = 0;     ///< a side has no piece
  index_t too_long = 0;  ///< a side has more than max_pieces
  index_t unknown = 0;   ///< pieces of the pairs kept that are unk
};

/// The pairs that were kept, as ids. Immutable.
class MULTIHEAD_API ParallelText {
 public:
  /// @throws ShapeError  if the texts differ in their number of lines, or no pair is left
  /// Memory  4 bytes a piece and 32 a pair.
  ParallelText(const TextLines& source, const TextLines& target, const Subwords& subwords,
               const ParallelOptions& options = {});
  /// A text without a source, for a language model: source(n) is empty.
  ParallelText(const TextLines& text, const Subwords& subwords, const ParallelOptions& options = {});

  index_t size() const { return static_cast<index_t>(lines_.size()); }
  bool has_source() const { return has_source_; }
  /// Pieces of pair n, without bos and eos.
  std::span<const std::int32_t> source(index_t n) const { return source_.of(n); }
  std::span<const std::int32_t> target(index_t n) const { return target_.of(n); }
  /// Code points of the target line, without white space at its end: the unit of a loss a character.
  index_t target_characters(index_t n) const { return characters_[static_cast<std::size_t>(n)]; }
  /// The line of pair n, from 0.
  index_t line(index_t n) const { return lines_[static_cast<std::size_t>(n)]; }
  const ParallelCounts& counts() const { return counts_; }
  /// The same for equal pieces in equal order, to tell whether a training goes on with its own data.
  std::uint64_t hash() const;

 private:
  struct MULTIHEAD_LOCAL Reader;
  struct Side {
    std::vector<std::int32_t> ids;
    std::vector<index_t> offsets = {0};
    std::span<const std::int32_t> of(index_t n) const {
      const auto at = static_cast<std::size_t>(n);
      return std::span(ids).subspan(static_cast<std::size_t>(offsets[at]),
                                    static_cast<std::size_t>(offsets[at + 1] - offsets[at]));
    }
  };
  void add(const Reader& reader, const TextLines* source, const TextLines& target);

  bool has_source_;
  Side source_, target_;
  std::vector<index_t> lines_, characters_;
  ParallelCounts counts_;
};

struct BatchOptions {
  /// A batch has at most so many target pieces, </s> included, and at most twice as many source pieces, or one pair.
  index_t target_pieces = 4096;
  std::uint64_t seed = 1;
};

/// The pairs of each batch of an epoch. Pairs of equal length meet at random; the batches come in random order.
class MULTIHEAD_API Batches {
 public:
  /// `text` must outlive this. @throws ShapeError  if target_pieces < 1
  Batches(const ParallelText& text, const BatchOptions& options);

  /// Batches of an epoch, the same for every epoch.
  index_t size() const { return static_cast<index_t>(ends_.size()); }
  /// [size()][pairs of the batch]
  std::vector<std::vector<index_t>> epoch(index_t epoch) const;
  /// By length alone, nothing random: for validation.
  std::vector<std::vector<index_t>> in_order() const;
  /// The same for the same data, options and rule of batching.
  std::uint64_t hash() const;

 private:
  std::vector<std::vector<index_t>> cut(const std::vector<index_t>& order) const;

  const ParallelText& text_;
  BatchOptions options_;
  std::vector<index_t> by_length_;  // pairs, sorted by target length, source length, number
  std::vector<index_t> ends_;       // of the batches, in that order
};

struct PackedBatch {
  std::vector<index_t> pairs = {};                                ///< [B] their numbers in the text
  std::vector<index_t> source_ids = {};                           ///< [total_s]; none without a source
  std::vector<index_t> target_in = {}, target_out = {};           ///< [total_t]
  std::vector<index_t> source_offsets = {}, target_offsets = {};  ///< [B+1], as Packed::cu_seqlens
};

MULTIHEAD_API PackedBatch packed_batch(const ParallelText& text, std::span<const index_t> pairs);

}  // namespace multihead::train
