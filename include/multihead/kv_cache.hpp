// Keys and values of earlier tokens, for decoding. Each cache is a pool of pages and, for each sequence, a table of the
// pages that hold its tokens in order. There are three kinds:
//
//   token j of sequence b = row j % page_size of page page_table[b, j / page_size]
//
//   contiguous   one page per sequence, as long as the capacity
//   paged        short pages of a common pool, assigned to sequences as they grow
//   ring         pages of one token; when a sequence is full, its oldest token after the sinks is evicted
//
// Sequences may share pages: fork() copies only the table, and a shared page is copied before a sequence writes to it.
#pragma once

#include <vector>

#include "multihead/attention.hpp"
#include "multihead/tensor.hpp"

namespace multihead {

struct KvCacheShape {
  index_t num_sequences = 1;  ///< B
  index_t num_kv_heads = 1;   ///< Hkv
  index_t head_dim = 64;      ///< D
  index_t head_dim_v = 64;    ///< Dv
  DType dtype = DType::f32;   ///< of the stored keys and values: f32, bf16, f16 or f64
};

/// What attention_forward needs to read the cache. It is valid until the cache changes.
struct KvCacheView {
  InputView<4> k;                           ///< [num_pages, page_size, Hkv, D]
  InputView<4> v;                           ///< [num_pages, page_size, Hkv, Dv]
  TensorView<const index_t, 2> page_table;  ///< [B, pages of the longest sequence], for AttentionOptions::page_table
  TensorView<const index_t, 1> seqlen_kv;   ///< [B] tokens of each sequence, for Mask::seqlen_kv
};

class MULTIHEAD_API KvCache {
 public:
  /// Room for `capacity` tokens in each sequence.
  static KvCache contiguous(const KvCacheShape& shape, index_t capacity);
  /// Room for num_pages * page_size tokens of all sequences together.
  static KvCache paged(const KvCacheShape& shape, index_t page_size, index_t num_pages);
  /// Keeps the first `num_sink_tokens` and the last `window` tokens of each sequence.
  static KvCache ring(const KvCacheShape& shape, index_t num_sink_tokens, index_t window);

  const KvCacheShape& shape() const { return shape_; }
  index_t page_size() const { return page_size_; }
  index_t num_pages() const { return static_cast<index_t>(refs_.size()); }
  index_t num_free_pages() const { return static_cast<index_t>(free_.size()); }
  /// Most tokens that sequence can hold.
  index_t capacity() const { return capacity_; }
  bool is_ring() const { return is_ring_; }

  /// Number of tokens in the cache.
  index_t length(index_t sequence) const;
  /// Position of the next token: counts tokens evicted from a ring, but not those removed by drop_last or truncate_to.
  index_t next_position(index_t sequence) const;
  /// Number of tokens that can be appended before the sequence is full; a full ring evicts a token for each new one.
  index_t room(index_t sequence) const;

  /// Appends tokens k [B, S, Hkv, D], v [B, S, Hkv, Dv], rounded to the dtype of the cache; to sequence b the first
  /// counts(b) if counts is given. An f64 cache takes f64 only, the others f32, bf16 and f16.
  /// @throws ShapeError  if they do not fit; nothing is appended in that case
  void append(const InputView<4>& k, const InputView<4>& v, TensorView<const index_t, 1> counts = {});
  /// Makes the checks of append for `seqlen` tokens, with `function` as the name in error texts. Changes nothing.
  void check_append(const char* function, index_t batch, index_t seqlen,
                    TensorView<const index_t, 1> counts = {}) const;

  /// Keeps the first `length` tokens. @throws ShapeError  if there are fewer
  void truncate_to(index_t sequence, index_t length);
  /// Removes the last `num_tokens` tokens. @throws ShapeError  if there are fewer
  void drop_last(index_t sequence, index_t num_tokens);
  /// Replaces sequence `to` by a copy of sequence `from`. Both are independent from then on.
  void fork(index_t from, index_t to);

  /// The keys of token j for writing, [Hkv, D]; its page is copied first if it is shared.
  /// @throws ShapeError  if the sequence has no token j, or no page is free for the copy
  OutputView<2> writable_key(index_t sequence, index_t j);
  /// Adds `delta` to next_position. For use after the keys were rotated to other positions (nn::rope_shift).
  void shift_next_position(index_t sequence, index_t delta);

  KvCacheView view() const&;
  KvCacheView view() const&& = delete;  // it would dangle

 private:
  KvCache(const KvCacheShape& shape, index_t page_size, index_t num_pages, index_t capacity);
  void check_sequence(const char* function, index_t sequence) const;
  index_t pages_of(index_t length) const;
  index_t pages_to_take(index_t seqlen, TensorView<const index_t, 1> counts) const;
  index_t take_page();
  void release_page(index_t page);
  void own_page(index_t sequence, index_t n);
  void reserve_token(index_t sequence);
  void set_length(index_t sequence, index_t length);

  KvCacheShape shape_;
  index_t page_size_, capacity_;
  bool is_ring_ = false;
  index_t num_sink_tokens_ = 0;
  Tensor<std::byte, 1> k_, v_;                 // [num_pages, Hkv, page_size, D | Dv]: the keys of a head are contiguous
  std::vector<index_t> refs_, free_;           // [num_pages] number of sequences that use a page; the free pages
  Tensor<index_t, 2> page_table_;              // [B, W]; W grows with the sequences
  Tensor<index_t, 1> length_, next_position_;  // [B]
};

}  // namespace multihead
