// Prefetchers of rows that are needed soon, some at each step of the work that goes on meanwhile.
//
// The CPU can wait for a limited number of cache lines at once: prefetched in one burst they wait for each other and
// hold up the work, spread over it they do not (docs/ladder.md, steps 11 and 25).

#if defined(MULTIHEAD_KERNELS_PRODUCT_PREFETCHER_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_PRODUCT_PREFETCHER_INL
#undef MULTIHEAD_KERNELS_PRODUCT_PREFETCHER_INL
#else
#define MULTIHEAD_KERNELS_PRODUCT_PREFETCHER_INL
#endif

#include <algorithm>

#include "core/ceil_div.hpp"
#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Where rows go: what is read much later into the L2, as the L1 has no room for it, or lines that will be written.
enum class PrefetchTo { l2, write };

/// Rows that lie at equal distances. They are added in parts, distributed over a number of steps, and prefetched as
/// whole rows at each step, the part added last first.
class RowPrefetcher {
 public:
  HWY_INLINE void Clear() { num_parts_ = num_rows_ = 0; }

  /// Rows [begin, end) of a head, `width` elements each; of these, part `part` of `parts`.
  template <class R>
  HWY_INLINE void Add(const R& rows, index_t head, index_t width, index_t begin, index_t end, PrefetchTo to,
                      index_t part = 0, index_t parts = 1) {
    const index_t count = std::max<index_t>(end - begin, 0), size = dtype_bytes(rows.dtype);
    const index_t first = begin + count * part / parts, past = begin + count * (part + 1) / parts;
    if (first == past) return;
    const char* const data = static_cast<const char*>(rows.data) + head * rows.head_stride * size;
    parts_[num_parts_++] = {data + first * rows.token_stride * size, rows.token_stride * size, width * size,
                            past - first, to};
    num_rows_ += past - first;
  }

  /// All rows within this many steps, or in one.
  HWY_INLINE void Spread(index_t num_steps) {
    if (num_parts_ > 0) rows_per_step_ = ceil_div(num_rows_, std::max<index_t>(num_steps, 1));
  }

  HWY_INLINE void Step() {
    for (index_t n = 0; num_parts_ > 0 && n < rows_per_step_; ++n) {
      Part& part = parts_[num_parts_ - 1];
      if (part.to == PrefetchTo::l2) {
        for (index_t at = 0; at < part.row_bytes; at += kLineBytes) __builtin_prefetch(part.data + at, 0, 2);
      } else {
        for (index_t at = 0; at < part.row_bytes; at += kLineBytes) __builtin_prefetch(part.data + at, 1, 3);
      }
      part.data += part.row_step;
      if (--part.num_rows == 0) --num_parts_;
    }
  }

 private:
  struct Part {
    const char* data;
    index_t row_step, row_bytes, num_rows;
    PrefetchTo to;
  };
  static constexpr index_t kMaxParts = 5;  // out and bias; queries, keys and values of the next block

  Part parts_[kMaxParts];
  index_t num_parts_ = 0, num_rows_ = 0, rows_per_step_ = 0;
};

/// Rows that lie anywhere, into the L1: a few lines at each step, however long rows are. For what is used within the
/// next steps.
class LinePrefetcher {
 public:
  LinePrefetcher() = default;

  /// Rows of `row_bytes` bytes at offset[0 .. num_rows), in elements; all lines within num_steps steps.
  HWY_INLINE LinePrefetcher(const ConstRows& rows, const index_t* offset, index_t num_rows, index_t row_bytes,
                            index_t num_steps)
      : data_(static_cast<const char*>(rows.data)),
        offset_(offset),
        element_bytes_(dtype_bytes(rows.dtype)),
        num_rows_(num_rows),
        row_bytes_(row_bytes) {
    if (num_rows == 0 || num_steps <= 0) return;
    at_ = data_ + offset[0] * element_bytes_;
    end_ = at_ + row_bytes;
    lines_per_step_ = ceil_div(num_rows * ceil_div(row_bytes, kLineBytes), num_steps);
  }

  HWY_INLINE void Step() {
    const char* at = at_;
    for (index_t n = 0; n < lines_per_step_; ++n) {
      __builtin_prefetch(at, 0, 3);
      at += kLineBytes;
      if (at < end_) continue;
      if (++row_ >= num_rows_) {
        lines_per_step_ = 0;
        break;
      }
      at = data_ + offset_[row_] * element_bytes_;
      end_ = at + row_bytes_;
    }
    at_ = at;
  }

 private:
  const char* data_ = nullptr;
  const index_t* offset_ = nullptr;
  index_t element_bytes_ = 0, num_rows_ = 0, row_bytes_ = 0, lines_per_step_ = 0, row_ = 0;
  const char *at_ = nullptr, *end_ = nullptr;
};

/// Rows [begin, end) of a head at once: part `part` of `parts` of them.
HWY_INLINE void PrefetchBurst(const ConstRows& rows, index_t head, index_t width, index_t begin, index_t end,
                              PrefetchTo to, index_t part = 0, index_t parts = 1) {
  RowPrefetcher burst;
  burst.Add(rows, head, width, begin, end, to, part, parts);
  burst.Spread(1);
  burst.Step();
}

/// The end of a register block that is also a step of a prefetcher.
template <class Finish>
struct ThenPrefetch {
  Finish finish;
  RowPrefetcher* prefetcher;
  template <int MR, int NV, class D, class T>
  HWY_INLINE void Block(D d, hn::Vec<D> (&sum)[MR][NV], const T* c, index_t c_row) const {
    finish.template Block<MR, NV>(d, sum, c, c_row);
    prefetcher->Step();
  }
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
