#include "multihead/kv_cache.hpp"

#include <algorithm>
#include <cstring>

#include "core/ceil_div.hpp"
#include "core/element.hpp"
#include "core/require.hpp"

namespace multihead {
namespace {

// Copies one head of one token. `from` may have any stride.
void copy_features(const InputView<4>& from, index_t b, index_t i, index_t g, DType dtype, std::byte* to) {
  const index_t first = b * from.stride(0) + i * from.stride(1) + g * from.stride(2);
  if (from.dtype() == dtype && from.stride(3) == 1) {
    std::memcpy(to, static_cast<const std::byte*>(from.data()) + first * dtype_bytes(dtype),
                static_cast<std::size_t>(from.shape(3) * dtype_bytes(dtype)));
    return;
  }
  for (index_t d = 0; d < from.shape(3); ++d) {
    store_element(to, dtype, d, load_element(from.data(), from.dtype(), first + d * from.stride(3)));
  }
}

bool is_float(DType dtype) { return dtype != DType::boolean && dtype != DType::i64; }

}  // namespace

KvCache KvCache::contiguous(const KvCacheShape& shape, index_t capacity) {
  require(capacity > 0, "KvCache::contiguous", "capacity must be above 0", {{"capacity", capacity}});
  return KvCache(shape, capacity, shape.num_sequences, capacity);
}

KvCache KvCache::paged(const KvCacheShape& shape, index_t page_size, index_t num_pages) {
  require(page_size > 0 && num_pages > 0, "KvCache::paged", "page_size and num_pages must be above 0",
          {{"page_size", page_size}, {"num_pages", num_pages}});
  index_t capacity = 0;
  require(!__builtin_mul_overflow(page_size, num_pages, &capacity), "KvCache::paged",
          "page_size * num_pages must fit in 63 bits", {{"page_size", page_size}, {"num_pages", num_pages}});
  return KvCache(shape, page_size, num_pages, capacity);
}

KvCache KvCache::ring(const KvCacheShape& shape, index_t num_sink_tokens, index_t window) {
  require(num_sink_tokens >= 0 && window > 0, "KvCache::ring", "num_sink_tokens must be 0 or more and window above 0",
          {{"num_sink_tokens", num_sink_tokens}, {"window", window}});
  index_t capacity = 0, num_pages = 0;
  require(!__builtin_add_overflow(num_sink_tokens, window, &capacity) &&
              !__builtin_mul_overflow(capacity, shape.num_sequences, &num_pages),
          "KvCache::ring", "all tokens must fit in 63 bits",
          {{"num_sink_tokens", num_sink_tokens}, {"window", window}, {"num_sequences", shape.num_sequences}});
  KvCache cache(shape, 1, num_pages, capacity);
  cache.is_ring_ = true;
  cache.num_sink_tokens_ = num_sink_tokens;
  return cache;
}

KvCache::KvCache(const KvCacheShape& shape, index_t page_size, index_t num_pages, index_t capacity)
    : shape_(shape), page_size_(page_size), capacity_(capacity) {
  require(shape.num_sequences >= 0 && shape.num_kv_heads > 0 && shape.head_dim > 0 && shape.head_dim_v > 0, "KvCache",
          "num_kv_heads, head_dim and head_dim_v must be above 0",
          {{"num_sequences", shape.num_sequences},
           {"num_kv_heads", shape.num_kv_heads},
           {"head_dim", shape.head_dim},
           {"head_dim_v", shape.head_dim_v}});
  require<UnsupportedError>(is_float(shape.dtype), "KvCache", "the dtype must be f32, bf16, f16 or f64",
                            {{"dtype", shape.dtype}});
  const auto pool = [&](index_t width) {
    const std::array<index_t, 4> extents{num_pages, shape.num_kv_heads, page_size, width};
    return Tensor<std::byte, 1>({checked_size(extents.data(), 4, dtype_bytes(shape.dtype)) * dtype_bytes(shape.dtype)});
  };
  k_ = pool(shape.head_dim);
  v_ = pool(shape.head_dim_v);
  refs_.assign(static_cast<std::size_t>(num_pages), 0);
  for (index_t page = num_pages - 1; page >= 0; --page) free_.push_back(page);
  page_table_ = Tensor<index_t, 2>({shape.num_sequences, 1});
  length_ = Tensor<index_t, 1>({shape.num_sequences});
  next_position_ = Tensor<index_t, 1>({shape.num_sequences});
}

void KvCache::check_sequence(const char* function, index_t sequence) const {
  require(sequence >= 0 && sequence < shape_.num_sequences, function, "the sequence must be one of num_sequences",
          {{"sequence", sequence}, {"num_sequences", shape_.num_sequences}});
}

index_t KvCache::length(index_t sequence) const {
  check_sequence("KvCache::length", sequence);
  return length_(sequence);
}

index_t KvCache::next_position(index_t sequence) const {
  check_sequence("KvCache::next_position", sequence);
  return next_position_(sequence);
}

index_t KvCache::room(index_t sequence) const {
  check_sequence("KvCache::room", sequence);
  return capacity_ - length_(sequence);
}

index_t KvCache::pages_of(index_t length) const { return ceil_div(length, page_size_); }

// Number of pages that an append takes from the pool: new pages, and copies of last pages that are shared. Of the
// sequences that share a page, the last one keeps it and writes in place.
index_t KvCache::pages_to_take(index_t seqlen, TensorView<const index_t, 1> counts) const {
  index_t total = 0;
  std::vector<index_t> left;  // shared pages that an earlier sequence of this append has replaced by a copy
  for (index_t b = 0; b < shape_.num_sequences; ++b) {
    const index_t count = counts ? counts(b) : seqlen, length = length_(b);
    if (count == 0) continue;
    total += pages_of(length + count) - pages_of(length);
    if (length % page_size_ == 0) continue;
    const index_t page = page_table_(b, length / page_size_);
    if (refs_[static_cast<std::size_t>(page)] - std::count(left.begin(), left.end(), page) > 1) {
      left.push_back(page);
      ++total;
    }
  }
  return total;
}

void KvCache::check_append(const char* function, index_t batch, index_t seqlen,
                           TensorView<const index_t, 1> counts) const {
  require(batch == shape_.num_sequences, function, "the batch must be the cache's num_sequences",
          {{"batch", batch}, {"num_sequences", shape_.num_sequences}});
  require(!counts || counts.shape(0) == batch, function, "counts must be [num_sequences]",
          {{"counts", shape_text(counts.shape().data(), 1)}, {"num_sequences", batch}});
  for (index_t b = 0; b < batch; ++b) {
    const index_t count = counts ? counts(b) : seqlen;
    require(count >= 0 && count <= seqlen, function, "a count of new tokens must be in [0, seqlen]",
            {{"sequence", b}, {"count", count}, {"seqlen", seqlen}});
    require(is_ring_ || count <= capacity_ - length_(b), function, "the tokens must fit into the cache",
            {{"sequence", b}, {"length", length_(b)}, {"new_tokens", count}, {"capacity", capacity_}});
  }
  if (is_ring_) return;  // has all pages from the beginning
  const index_t pages = pages_to_take(seqlen, counts);
  require(pages <= num_free_pages(), function, "free pages must be enough for the new tokens",
          {{"pages_needed", pages}, {"pages_free", num_free_pages()}, {"page_size", page_size_}});
}

index_t KvCache::take_page() {
  const index_t page = free_.back();
  free_.pop_back();
  refs_[static_cast<std::size_t>(page)] = 1;
  return page;
}

void KvCache::release_page(index_t page) {
  if (--refs_[static_cast<std::size_t>(page)] == 0) free_.push_back(page);
}

// Makes page n of a sequence exclusive to it: if it is shared, it is copied.
void KvCache::own_page(index_t sequence, index_t n) {
  index_t& page = page_table_(sequence, n);
  if (refs_[static_cast<std::size_t>(page)] == 1) return;
  const index_t copy = take_page();
  for (Tensor<std::byte, 1>* pool : {&k_, &v_}) {
    const index_t bytes = pool->size() / num_pages();
    std::memcpy(pool->data() + copy * bytes, pool->data() + page * bytes, static_cast<std::size_t>(bytes));
  }
  release_page(page);
  page = copy;
}

// Takes room for one more token and increments length_.
void KvCache::reserve_token(index_t sequence) {
  index_t& length = length_(sequence);
  if (is_ring_ && length == capacity_) {
    index_t* row = &page_table_(sequence, 0);
    release_page(row[num_sink_tokens_]);
    std::copy(row + num_sink_tokens_ + 1, row + capacity_, row + num_sink_tokens_);
    --length;
  }
  const index_t n = length / page_size_;
  if (length % page_size_ != 0) {
    own_page(sequence, n);
  } else {
    if (n == page_table_.shape(1)) {
      Tensor<index_t, 2> wider({shape_.num_sequences, 2 * n});
      for (index_t b = 0; b < shape_.num_sequences; ++b) std::copy_n(&page_table_(b, 0), n, &wider(b, 0));
      page_table_ = std::move(wider);
    }
    page_table_(sequence, n) = take_page();
  }
  ++length;
  ++next_position_(sequence);
}

void KvCache::append(const InputView<4>& k, const InputView<4>& v, TensorView<const index_t, 1> counts) {
  const char* function = "KvCache::append";
  const auto text = [](const InputView<4>& view) { return shape_text(view.shape().data(), 4); };
  require<UnsupportedError>(is_float(k.dtype()) && is_float(v.dtype()) &&
                                (k.dtype() == DType::f64) == (shape_.dtype == DType::f64) &&
                                (v.dtype() == DType::f64) == (shape_.dtype == DType::f64),
                            function, "k and v must be f32, bf16 or f16; f64 in an f64 cache",
                            {{"k", k.dtype()}, {"v", v.dtype()}, {"cache", shape_.dtype}});
  require(k.shape(2) == shape_.num_kv_heads && k.shape(3) == shape_.head_dim && v.shape(2) == shape_.num_kv_heads &&
              v.shape(3) == shape_.head_dim_v && k.shape(0) == v.shape(0) && k.shape(1) == v.shape(1),
          function, "k must be [B, S, num_kv_heads, head_dim] and v [B, S, num_kv_heads, head_dim_v]",
          {{"k", text(k)},
           {"v", text(v)},
           {"num_kv_heads", shape_.num_kv_heads},
           {"head_dim", shape_.head_dim},
           {"head_dim_v", shape_.head_dim_v}});
  check_append(function, k.shape(0), k.shape(1), counts);
  const index_t k_bytes = shape_.head_dim * dtype_bytes(shape_.dtype);
  const index_t v_bytes = shape_.head_dim_v * dtype_bytes(shape_.dtype);
  for (index_t b = 0; b < k.shape(0); ++b) {
    const index_t count = counts ? counts(b) : k.shape(1);
    for (index_t i = 0; i < count; ++i) {
      reserve_token(b);
      const index_t j = length_(b) - 1;
      const index_t first = page_table_(b, j / page_size_) * shape_.num_kv_heads * page_size_ + j % page_size_;
      for (index_t g = 0; g < shape_.num_kv_heads; ++g) {
        copy_features(k, b, i, g, shape_.dtype, k_.data() + (first + g * page_size_) * k_bytes);
        copy_features(v, b, i, g, shape_.dtype, v_.data() + (first + g * page_size_) * v_bytes);
      }
    }
  }
}

void KvCache::set_length(index_t sequence, index_t length) {
  const index_t dropped = length_(sequence) - length;
  for (index_t n = pages_of(length); n < pages_of(length_(sequence)); ++n) release_page(page_table_(sequence, n));
  length_(sequence) = length;
  next_position_(sequence) -= dropped;
}

void KvCache::truncate_to(index_t sequence, index_t length) {
  check_sequence("KvCache::truncate_to", sequence);
  require(length >= 0 && length <= length_(sequence), "KvCache::truncate_to",
          "the new length must be in [0, the length]", {{"new_length", length}, {"length", length_(sequence)}});
  set_length(sequence, length);
}

void KvCache::drop_last(index_t sequence, index_t num_tokens) {
  check_sequence("KvCache::drop_last", sequence);
  require(num_tokens >= 0 && num_tokens <= length_(sequence), "KvCache::drop_last",
          "num_tokens must be in [0, the length]", {{"num_tokens", num_tokens}, {"length", length_(sequence)}});
  set_length(sequence, length_(sequence) - num_tokens);
}

void KvCache::fork(index_t from, index_t to) {
  check_sequence("KvCache::fork", from);
  check_sequence("KvCache::fork", to);
  if (from == to) return;
  set_length(to, 0);
  for (index_t n = 0; n < pages_of(length_(from)); ++n) {
    page_table_(to, n) = page_table_(from, n);
    ++refs_[static_cast<std::size_t>(page_table_(to, n))];
  }
  length_(to) = length_(from);
  next_position_(to) = next_position_(from);
}

OutputView<2> KvCache::writable_key(index_t sequence, index_t j) {
  const char* function = "KvCache::writable_key";
  check_sequence(function, sequence);
  require(j >= 0 && j < length_(sequence), function, "the token must be held",
          {{"token", j}, {"length", length_(sequence)}});
  const index_t page = page_table_(sequence, j / page_size_);
  require(refs_[static_cast<std::size_t>(page)] == 1 || num_free_pages() > 0, function,
          "a page must be free to copy a shared one", {{"pages_free", num_free_pages()}});
  own_page(sequence, j / page_size_);
  const index_t first = page_table_(sequence, j / page_size_) * shape_.num_kv_heads * page_size_ + j % page_size_;
  return {k_.data() + first * shape_.head_dim * dtype_bytes(shape_.dtype),
          shape_.dtype,
          {shape_.num_kv_heads, shape_.head_dim},
          {page_size_ * shape_.head_dim, 1}};
}

void KvCache::shift_next_position(index_t sequence, index_t delta) {
  check_sequence("KvCache::shift_next_position", sequence);
  next_position_(sequence) += delta;
}

KvCacheView KvCache::view() const& {
  const auto pages = [&](const Tensor<std::byte, 1>& pool, index_t width) {
    return InputView<4>(pool.data(), shape_.dtype, {num_pages(), page_size_, shape_.num_kv_heads, width},
                        {shape_.num_kv_heads * page_size_ * width, width, page_size_ * width, 1});
  };
  index_t longest = 0;
  for (index_t b = 0; b < shape_.num_sequences; ++b) longest = std::max(longest, pages_of(length_(b)));
  return {pages(k_, shape_.head_dim), pages(v_, shape_.head_dim_v), page_table_.view().slice(1, 0, longest),
          length_.view()};
}

}  // namespace multihead
