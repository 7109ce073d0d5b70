// Prefetches rows that are needed soon, a few cache lines at each step of the work that goes on meanwhile.
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

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Where lines go: what is used within the next steps into the L1, what is used much later into the L2 (the L1 has no
/// room for it), and lines that will be written.
enum class PrefetchTo { l1, l2, write };

/// Rows are added in parts, distributed over a number of steps, and prefetched step by step, the part added last first.
class Prefetcher {
 public:
  HWY_INLINE void Clear() { num_parts_ = num_lines_ = lines_per_step_ = 0; }

  /// Rows [begin, end) of a head, `width` elements each; of these, part `part` of `parts`.
  template <class R>
  HWY_INLINE void Add(const R& rows, index_t head, index_t width, index_t begin, index_t end, PrefetchTo to,
                      index_t part = 0, index_t parts = 1) {
    const index_t count = std::max<index_t>(end - begin, 0), size = dtype_bytes(rows.dtype);
    const index_t first = begin + count * part / parts, past = begin + count * (part + 1) / parts;
    const char* const data = static_cast<const char*>(rows.data) + head * rows.head_stride * size;
    Add({data + first * rows.token_stride * size, nullptr, rows.token_stride * size, width * size, past - first, to});
  }

  /// Rows of `row_bytes` bytes at offset[0 .. num_rows), in elements.
  HWY_INLINE void Add(const ConstRows& rows, const index_t* offset, index_t num_rows, index_t row_bytes,
                      PrefetchTo to) {
    Add({static_cast<const char*>(rows.data), offset, dtype_bytes(rows.dtype), row_bytes, num_rows, to});
  }

  /// All lines within this many steps.
  HWY_INLINE void Spread(index_t num_steps) {
    if (num_parts_ == 0 || num_steps <= 0) return;
    lines_per_step_ = (num_lines_ + num_steps - 1) / num_steps;
    BeginPart();
  }

  HWY_INLINE void Step() {
    if (to_ == PrefetchTo::l1) {
      StepLines();
    } else {
      StepRows();
    }
  }

 private:
  struct Part {
    const char* data;
    const index_t* offset;  // of each row, in elements; nullptr: rows are `step` bytes apart
    index_t step;           // or the bytes of an element
    index_t row_bytes, num_rows;
    PrefetchTo to;
  };
  static constexpr index_t kMaxParts = 5;  // out and bias; queries, keys and values of the next block

  HWY_INLINE void Add(const Part& part) {
    if (part.num_rows <= 0) return;
    parts_[num_parts_++] = part;
    num_lines_ += part.num_rows * ((part.row_bytes + kLineBytes - 1) / kLineBytes);
  }

  HWY_INLINE void BeginPart() {
    const Part& part = parts_[num_parts_ - 1];
    row_ = 0;
    to_ = part.to;
    at_ = part.offset == nullptr ? part.data : part.data + part.offset[0] * part.step;
    end_ = at_ + part.row_bytes;
  }

  /// Few lines per step: one at a time.
  HWY_INLINE void StepLines() {
    const char* at = at_;
    for (index_t n = 0; n < lines_per_step_; ++n) {
      __builtin_prefetch(at, 0, 3);
      at += kLineBytes;
      if (at < end_) continue;
      if (!NextRow()) return;
      at = at_;
    }
    at_ = at;
  }

  /// Rows or more per step: as many lines as a row still has.
  HWY_INLINE void StepRows() {
    for (index_t left = lines_per_step_; left > 0;) {
      const index_t count = std::min(left, (end_ - at_ + kLineBytes - 1) / kLineBytes);
      const char* const stop = at_ + count * kLineBytes;
      if (to_ == PrefetchTo::l2) {
        for (const char* at = at_; at < stop; at += kLineBytes) __builtin_prefetch(at, 0, 2);
      } else {
        for (const char* at = at_; at < stop; at += kLineBytes) __builtin_prefetch(at, 1, 3);
      }
      at_ = stop;
      left -= count;
      if (at_ >= end_ && !NextRow()) return;
    }
  }

  /// Goes to the next row. False behind the last row of the last part: the steps that follow are empty.
  HWY_INLINE bool NextRow() {
    const Part& part = parts_[num_parts_ - 1];
    if (++row_ < part.num_rows) {
      at_ = part.offset == nullptr ? end_ - part.row_bytes + part.step : part.data + part.offset[row_] * part.step;
      end_ = at_ + part.row_bytes;
      return true;
    }
    if (--num_parts_ == 0) {
      lines_per_step_ = 0;
      return false;
    }
    BeginPart();
    return true;
  }

  Part parts_[kMaxParts];
  index_t num_parts_ = 0, num_lines_ = 0, lines_per_step_ = 0, row_ = 0;
  const char *at_ = nullptr, *end_ = nullptr;
  PrefetchTo to_ = PrefetchTo::l1;
};

/// Rows [begin, end) of a head at once: part `part` of `parts` of them.
HWY_INLINE void PrefetchBurst(const ConstRows& rows, index_t head, index_t width, index_t begin, index_t end,
                              PrefetchTo to, index_t part = 0, index_t parts = 1) {
  Prefetcher burst;
  burst.Add(rows, head, width, begin, end, to, part, parts);
  burst.Spread(1);
  burst.Step();
}

/// The end of a register block that is also a step of a prefetcher.
template <class Finish>
struct ThenPrefetch {
  Finish finish;
  Prefetcher* prefetcher;
  template <int MR, int NV, class D, class T>
  HWY_INLINE void Block(D d, hn::Vec<D> (&sum)[MR][NV], const T* c, index_t c_row) const {
    finish.template Block<MR, NV>(d, sum, c, c_row);
    prefetcher->Step();
  }
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
