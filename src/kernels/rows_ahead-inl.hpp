// Asks for rows that will be needed soon, a few cache lines at a step of the work that goes on meanwhile.
//
// The CPU follows only so many misses at once: lines asked for in one burst wait for each other and hold up the work,
// the same lines spread over it do not (docs/performance.md, "Forward").

#if defined(MULTIHEAD_KERNELS_ROWS_AHEAD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_ROWS_AHEAD_INL
#undef MULTIHEAD_KERNELS_ROWS_AHEAD_INL
#else
#define MULTIHEAD_KERNELS_ROWS_AHEAD_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/micro_kernel-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

class RowsAhead {
 public:
  enum class Use { read, write };

  HWY_INLINE void Clear() { num_parts_ = num_rows_ = 0; }

  /// Part `part` of `parts` of rows [begin, end) of a head: to be read, into the L2, as the L1 has no room for what is
  /// needed that much later; or to be written.
  template <class R>
  HWY_INLINE void Add(const R& rows, index_t head, index_t width, index_t begin, index_t end, index_t part,
                      index_t parts, Use use = Use::read) {
    const index_t count = std::max<index_t>(end - begin, 0), size = dtype_bytes(rows.dtype);
    const index_t first = begin + count * part / parts, past = begin + count * (part + 1) / parts;
    if (first == past) return;
    const char* data =
        static_cast<const char*>(rows.data) + (head * rows.head_stride + first * rows.token_stride) * size;
    parts_[num_parts_++] = {data, rows.token_stride * size, width * size, past - first, use};
    num_rows_ += past - first;
  }

  /// The first rows of queries, keys and values of a block.
  template <class T>
  HWY_INLINE void AddBlock(const ForwardArgs<T>& block, index_t part, index_t parts) {
    const Scores<T>& s = block.scores;
    const bool by_query = s.num_heads > 1 && s.banded;
    const index_t query = by_query ? block.first_row / s.num_heads : block.first_row % s.seqlen_q;
    const index_t head = s.heads[by_query ? 0 : block.first_row / s.seqlen_q];
    const index_t query_end = query + std::min({block.num_rows, s.seqlen_q - query, kKeysPerTile});
    const index_t key_end = std::min(block.key_begin + kKeysPerTile, block.key_end);
    if (s.pages.table == nullptr) {
      Add(s.v, 0, s.head_dim_v, block.key_begin, key_end, part, parts);
      Add(s.k, 0, s.head_dim, block.key_begin, key_end, part, parts);
    }
    Add(s.q, head, s.head_dim, query, query_end, part, parts);
  }

  /// All rows within this many steps.
  HWY_INLINE void Spread(index_t num_steps) {
    if (num_parts_ > 0) rows_per_step_ = (num_rows_ + num_steps - 1) / std::max<index_t>(num_steps, 1);
  }

  HWY_INLINE void Step() {
    for (index_t n = 0; num_parts_ > 0 && n < rows_per_step_; ++n) {
      Part& part = parts_[num_parts_ - 1];
      if (part.use == Use::read) {
        for (index_t at = 0; at < part.row_bytes; at += kLine) __builtin_prefetch(part.data + at, 0, 2);
      } else {
        for (index_t at = 0; at < part.row_bytes; at += kLine) __builtin_prefetch(part.data + at, 1, 3);
      }
      part.data += part.row_step;
      if (--part.num_rows == 0) --num_parts_;
    }
  }

 private:
  static constexpr index_t kLine = 64, kMaxParts = 5;  // out, bias; three of a block
  struct Part {
    const char* data;
    index_t row_step, row_bytes, num_rows;
    Use use;
  };

  Part parts_[kMaxParts];
  index_t num_parts_ = 0, num_rows_ = 0, rows_per_step_ = 0;
};

/// The end of a register block that is also a step.
template <class Finish>
struct AndAsk {
  Finish finish;
  RowsAhead* ahead;
  template <int MR, int NV, class D, class T>
  HWY_INLINE void Block(D d, hn::Vec<D> (&sum)[MR][NV], const T* c) const {
    finish.template Block<MR, NV>(d, sum, c);
    ahead->Step();
  }
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
