// Keys and values of the tokens so far, for decoding. One mechanism for all kinds: a pool of pages, and for each
// sequence a table of the pages that hold its tokens in order.
//
//   token j of sequence b = row j % page_size of page page_table[b, j / page_size]
//
//   contiguous   a page a sequence, as long as the capacity
//   paged        short pages out of one pool, taken as sequences grow
//   ring         pages of one token; the oldest token behind the sinks leaves when a sequence is full
//
// Pages may be shared: fork() copies a table, and a shared page is copied when one of its sequences writes to it.
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
  DType dtype = DType::f32;   ///< as stored: f32, bf16, f16 or f64
};

/// What attention_forward needs to read the cache. Valid until the cache changes.
struct KvCacheView {
  InputView<4> k;                           ///< [num_pages, page_size, Hkv, D]
  InputView<4> v;                           ///< [num_pages, page_size, Hkv, Dv]
  TensorView<const index_t, 2> page_table;  ///< [B, pages of the longest sequence], AttentionOptions::page_table
  TensorView<const index_t, 1> seqlen_kv;   ///< [B] tokens of each sequence, Mask::seqlen_kv
};

class MULTIHEAD_API KvCache {
 public:
  /// Room for `capacity` tokens in each sequence.
  static KvCache contiguous(const KvCacheShape& shape, index_t capacity);
  /// num_pages * page_size tokens, shared by all sequences.
  static KvCache paged(const KvCacheShape& shape, index_t page_size, index_t num_pages);
  /// The first `num_sink_tokens` and the last `window` tokens of each sequence.
  static KvCache ring(const KvCacheShape& shape, index_t num_sink_tokens, index_t window);

  const KvCacheShape& shape() const { return shape_; }
  index_t page_size() const { return page_size_; }
  index_t num_pages() const { return static_cast<index_t>(refs_.size()); }
  index_t num_free_pages() const { return static_cast<index_t>(free_.size()); }
  /// Most tokens that sequence can hold.
  index_t capacity() const { return capacity_; }
  bool is_ring() const { return is_ring_; }

  /// Tokens held.
  index_t length(index_t sequence) const;
  /// Position of the next token: that of the last one plus 1. Tokens that left a ring count, dropped ones do not.
  index_t next_position(index_t sequence) const;
  /// Tokens that one append can add to a sequence before a ring lets the oldest go.
  index_t room(index_t sequence) const;

  /// Adds tokens k [B, S, Hkv, D], v [B, S, Hkv, Dv] at the end; of sequence b the first counts(b), where given.
  /// Rounded to the stored dtype. f64 goes with f64 alone.
  /// @throws ShapeError  if they do not fit; nothing has been added then
  void append(const InputView<4>& k, const InputView<4>& v, TensorView<const index_t, 1> counts = {});
  /// Throws as append of `seqlen` tokens would, in the name of `function`, and changes nothing.
  void check_append(const char* function, index_t batch, index_t seqlen,
                    TensorView<const index_t, 1> counts = {}) const;

  /// Keeps the first `length` tokens. @throws ShapeError  if there are fewer
  void truncate_to(index_t sequence, index_t length);
  /// Removes the last `num_tokens` tokens. @throws ShapeError  if there are fewer
  void drop_last(index_t sequence, index_t num_tokens);
  /// Sequence `to` becomes a copy of `from` and goes its own way from here; what it held is gone.
  void fork(index_t from, index_t to);

  /// Key of token j for writing, [Hkv, D]; the page is copied first if it is shared.
  /// @throws ShapeError  if j is not held, or no page is free for the copy
  OutputView<2> writable_key(index_t sequence, index_t j);
  /// Adds `delta` to next_position, after keys were rotated to other positions.
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
  Tensor<std::byte, 1> k_, v_;                 // [num_pages, Hkv, page_size, D | Dv] of dtype: a head's keys in one run
  std::vector<index_t> refs_, free_;           // [num_pages] sequences that use a page; the pages that none uses
  Tensor<index_t, 2> page_table_;              // [B, W], widened as sequences grow
  Tensor<index_t, 1> length_, next_position_;  // [B]
};

}  // namespace multihead
