// Asks for the rows of the next tile while this one is computed, a few cache lines at a step, in the order of memory:
// one linear stream for all heads, whatever order the products read in. Without it the CPU's own prefetcher loses track
// (docs/performance.md, "Decode").

#if defined(MULTIHEAD_KERNELS_TILE_READ_AHEAD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILE_READ_AHEAD_INL
#undef MULTIHEAD_KERNELS_TILE_READ_AHEAD_INL
#else
#define MULTIHEAD_KERNELS_TILE_READ_AHEAD_INL
#endif

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

class ReadAhead {
 public:
  ReadAhead() = default;

  /// Rows of `row_bytes` at data + offset[0 .. num_rows) elements, to be asked for within `num_steps` steps.
  HWY_INLINE ReadAhead(const ConstRows& rows, const index_t* offset, index_t num_rows, index_t row_bytes,
                       index_t num_steps)
      : data_(static_cast<const char*>(rows.data)),
        offset_(offset),
        element_bytes_(dtype_bytes(rows.dtype)),
        num_rows_(num_rows),
        row_bytes_(row_bytes) {
    const index_t lines = num_rows * ((row_bytes + kLine - 1) / kLine);
    if (num_rows == 0) return;
    at_ = data_ + offset[0] * element_bytes_;
    end_ = at_ + row_bytes;
    lines_per_step_ = num_steps > 0 ? (lines + num_steps - 1) / num_steps : 0;
  }

  HWY_INLINE void Step() {
    const char* at = at_;
    for (index_t n = 0; n < lines_per_step_; ++n) {
      hwy::Prefetch(at);
      at += kLine;
      if (at >= end_) {
        if (++row_ >= num_rows_) {
          lines_per_step_ = 0;
          break;
        }
        at = data_ + offset_[row_] * element_bytes_;
        end_ = at + row_bytes_;
      }
    }
    at_ = at;
  }

 private:
  static constexpr index_t kLine = 64;

  const char* data_ = nullptr;
  const index_t* offset_ = nullptr;
  index_t element_bytes_ = 0, num_rows_ = 0, row_bytes_ = 0;
  index_t lines_per_step_ = 0, row_ = 0;
  const char *at_ = nullptr, *end_ = nullptr;
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
