// How a product walks over k, and what it prefetches on the way.

#if defined(MULTIHEAD_KERNELS_PRODUCT_WALK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_PRODUCT_WALK_INL
#undef MULTIHEAD_KERNELS_PRODUCT_WALK_INL
#else
#define MULTIHEAD_KERNELS_PRODUCT_WALK_INL
#endif

#include <algorithm>

#include "core/ceil_div.hpp"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/simd/basics-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

/// How the loop over k goes: kUnroll steps at a time, after which A takes an extra jump. At is the walk of the block
/// that begins at row r. Prefetch is called at each of the kUnroll steps, for what is needed later.
struct Whole {
  static constexpr int kUnroll = 8;
  HWY_INLINE Whole At(index_t) const { return {}; }
  static HWY_INLINE constexpr index_t Jump() { return 0; }
  template <int MR, class T, class ARow>
  HWY_INLINE void Prefetch(int, const T*, ARow) {}
};
/// Segments of N steps; in A `jump` numbers lie between them.
template <int N>
struct Segments : Whole {
  static constexpr int kUnroll = N;
  index_t jump;
  HWY_INLINE explicit Segments(index_t distance) : jump(distance) {}
  HWY_INLINE Segments At(index_t) const { return *this; }
  HWY_INLINE index_t Jump() const { return jump; }
};
/// Prefetches the columns of A behind those of the block, one line ahead: the hardware prefetcher does not follow steps
/// of a row.
template <class T>
struct PrefetchColumns : Whole {
  HWY_INLINE PrefetchColumns At(index_t) const { return *this; }
  template <int MR, class ARow>
  HWY_INLINE void Prefetch(int, const T* at, ARow) {
    hwy::Prefetch(at + kLineElements<T>);
  }
};
/// Prefetches the MR rows of A behind the block, a line at a time: the hardware prefetcher follows a row only after
/// some lines of it.
template <class T>
struct PrefetchRows : Whole {
  static constexpr int kUnroll = kLineElements<T>;
  HWY_INLINE PrefetchRows At(index_t) const { return *this; }
  template <int MR, class ARow>
  HWY_INLINE void Prefetch(int u, const T* at, ARow a_row) {
#pragma GCC unroll 16
    for (int r = u * MR / kUnroll; r < (u + 1) * MR / kUnroll; ++r) hwy::Prefetch(at + (MR + r) * a_row);
  }
};
/// Prefetches the panel that comes after B, at an even pace over all rows of A: at once it would be requested faster
/// than memory delivers.
template <class T>
struct PrefetchPanel : Whole {
  const T* panel;
  index_t pace, row_pace;  // numbers of the panel at a time, and for each row of A

  PrefetchPanel(const T* next, index_t panel_size, index_t num_rows, index_t rows_per_block, index_t num_k)
      : panel(next) {
    const index_t times = std::max<index_t>(num_k / kUnroll, 1);
    const index_t num_blocks = ceil_div(num_rows, rows_per_block);
    pace = ceil_div(panel_size, times * num_blocks);
    row_pace = times * pace / rows_per_block;
  }
  HWY_INLINE PrefetchPanel At(index_t r) const {
    PrefetchPanel block = *this;
    block.panel += r * row_pace;
    return block;
  }
  template <int MR, class ARow>
  HWY_INLINE void Prefetch(int u, const T*, ARow) {
    if (u > 0) return;
    hwy::Prefetch(panel);
    for (index_t i = kLineElements<T>; HWY_UNLIKELY(i < pace); i += kLineElements<T>) hwy::Prefetch(panel + i);
    panel += pace;
  }
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
