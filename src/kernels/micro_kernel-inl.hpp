// The one hot primitive: a register block of a matrix product.
//
//   C[r][:] (+)= sum_k A(r, k) * B[k][:]      r < MR rows, NV vectors wide
//
// A is read one scalar at a time, at a + r*a_row + k*a_k, and broadcast: keys, values and weights are used where they
// lie. B and C are rows of NV vectors. The range of k may come in segments, between which A takes an extra step. The
// sum runs over k in order for every element, whatever MR and NV are: results do not depend on how rows are grouped
// into blocks.
//
// 4x3 keeps 12 sums, 3 vectors of B and one of A in the 16 registers of AVX2; 8x3 uses 28 of AVX-512's 32. The unroll
// pragmas keep the sums in registers at -O2 as well.

#if defined(MULTIHEAD_KERNELS_MICRO_KERNEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_MICRO_KERNEL_INL
#undef MULTIHEAD_KERNELS_MICRO_KERNEL_INL
#else
#define MULTIHEAD_KERNELS_MICRO_KERNEL_INL
#endif

#include <algorithm>
#include <type_traits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;

/// A stride that is 1 at compile time: the compiler then folds it into addresses.
using One = std::integral_constant<index_t, 1>;

inline constexpr int kNumVectors = 3;

/// Rows of a register block NV vectors wide. Narrow blocks are higher: too few sums would wait for one another, and
/// every broadcast of A would serve too few of them.
#if HWY_TARGET <= HWY_AVX3
template <int NV>
inline constexpr int kRowsPerBlock = NV == 1   ? 16
                                     : NV == 2 ? 12
                                               : 8;
#else
template <int NV>
inline constexpr int kRowsPerBlock = NV == 1   ? 8
                                     : NV == 2 ? 6
                                               : 4;
#endif

/// Lanes of one vector, and of a full tile. Targets with vectors of unknown length are disabled (kernels.cpp).
template <class T>
inline constexpr index_t kVectorLanes = HWY_LANES(T);
template <class T>
inline constexpr index_t kTileLanes = kNumVectors* kVectorLanes<T>;

/// How a block begins and ends. All are passed by value and inlined.
struct SetZero {  // C = sum
  template <class D>
  HWY_INLINE hn::Vec<D> Begin(D d, const hn::TFromD<D>*, index_t) const {
    return hn::Zero(d);
  }
};
struct Accumulate {  // C += sum
  template <class D>
  HWY_INLINE hn::Vec<D> Begin(D d, const hn::TFromD<D>* c, index_t) const {
    return hn::LoadU(d, c);
  }
};
template <class T>
struct Rescale {  // C = C * factor[lane] + sum
  const T* factor;
  template <class D>
  HWY_INLINE hn::Vec<D> Begin(D d, const T* c, index_t lane) const {
    return hn::Mul(hn::LoadU(d, c), hn::LoadU(d, factor + lane));
  }
};

/// What happens to a finished block while it is still in registers; `c` is where it goes.
struct Nothing {
  template <int MR, int NV, class D, class T>
  HWY_INLINE void Block(D, hn::Vec<D> (&)[MR][NV], const T*) const {}
};
template <class T>
struct KeepMax {  // max[lane] = the larger of it and the block's; a NaN does not replace a number
  T* max;
  template <int MR, int NV, class D>
  HWY_INLINE void Block(D d, hn::Vec<D> (&sum)[MR][NV], const T*) const {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      auto m = hn::LoadU(d, max + v * kVectorLanes<T>);
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) m = hn::Max(sum[r][v], m);
      hn::StoreU(m, d, max + v * kVectorLanes<T>);
    }
  }
};

/// How k is cut into segments. At is the cut of the block that begins at row r. Count and Steps say how many segments
/// and how long; Begin gives where A of a segment begins, for blocks of MR rows. B runs on.
struct Whole {
  HWY_INLINE Whole At(index_t) const { return {}; }
  static HWY_INLINE constexpr index_t Count(index_t) { return 1; }
  static HWY_INLINE index_t Steps(index_t num_k, index_t) { return num_k; }
  template <int MR, class T, class ARow, class AK>
  static HWY_INLINE const T* Begin(const T* a, ARow, AK, index_t) {
    return a;
  }
};
/// `count` segments of num_k steps each; A takes `step` from one to the next.
struct Segments {
  index_t count, step;
  HWY_INLINE Segments At(index_t) const { return *this; }
  HWY_INLINE index_t Count(index_t) const { return count; }
  HWY_INLINE index_t Steps(index_t num_k, index_t) const { return num_k; }
  template <int MR, class T, class ARow, class AK>
  HWY_INLINE const T* Begin(const T* a, ARow, AK, index_t s) const {
    return a + s * step;
  }
};
/// A segment is a cache line of k, and as it begins, lines that are needed later are asked for: of the panel that comes
/// after B, so many a segment; or, without one, of the MR rows of A after the block, since the CPU itself follows a row
/// only after some lines of it.
template <class T>
struct Ahead {
  static constexpr index_t kLine = 64 / static_cast<index_t>(sizeof(T));
  const T* panel = nullptr;
  index_t lines = 0, row_step = 0;  // row_step: how far along the panel a row of A takes us

  /// Spreads the panel over all rows of A.
  Ahead(const T* next, index_t panel_size, index_t num_rows, index_t rows_per_block, index_t num_k) {
    if (next == nullptr) return;
    const index_t num_segments = Count(num_k) * ((num_rows + rows_per_block - 1) / rows_per_block);
    panel = next;
    lines = (panel_size + num_segments * kLine - 1) / std::max<index_t>(num_segments * kLine, 1);
    row_step = Count(num_k) * lines * kLine / rows_per_block;
  }
  HWY_INLINE Ahead At(index_t r) const {
    Ahead block = *this;
    if (panel != nullptr) block.panel += r * row_step;
    return block;
  }
  static HWY_INLINE index_t Count(index_t num_k) { return (num_k + kLine - 1) / kLine; }
  static HWY_INLINE index_t Steps(index_t num_k, index_t s) { return std::min(kLine, num_k - s * kLine); }
  template <int MR, class ARow, class AK>
  HWY_INLINE const T* Begin(const T* a, ARow a_row, AK a_k, index_t s) const {
    const T* const at = a + s * kLine * a_k;
    if (panel != nullptr) {
      for (index_t i = 0; i < lines; ++i) hwy::Prefetch(panel + (s * lines + i) * kLine);
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) hwy::Prefetch(at + (MR + r) * a_row);
    }
    return at;
  }
};

template <int MR, int NV, class Cut, class ARow, class AK, class Start, class Finish, class T>
HWY_INLINE void MicroKernel(index_t num_k, Cut cut, const T* HWY_RESTRICT a, ARow a_row, AK a_k,
                            const T* HWY_RESTRICT b, index_t b_row, T* HWY_RESTRICT c, index_t c_row, Start start,
                            Finish finish) {
  const Tag<T> d;
  constexpr index_t kLanes = kVectorLanes<T>;
  hn::Vec<Tag<T>> sum[MR][NV];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) sum[r][v] = start.Begin(d, c + r * c_row + v * kLanes, v * kLanes);
  }
  for (index_t s = 0; s < cut.Count(num_k); ++s) {
    const T* HWY_RESTRICT at = cut.template Begin<MR>(a, a_row, a_k, s);
    const index_t num_steps = cut.Steps(num_k, s);
#pragma GCC unroll 4
    for (index_t k = 0; k < num_steps; ++k) {
      hn::Vec<Tag<T>> row[NV];
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) row[v] = hn::LoadU(d, b + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) {
        const auto scalar = hn::Set(d, at[r * a_row]);
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) sum[r][v] = hn::MulAdd(scalar, row[v], sum[r][v]);
      }
      at += a_k;
      b += b_row;
    }
  }
  finish.template Block<MR, NV>(d, sum, c);
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) hn::StoreU(sum[r][v], d, c + r * c_row + v * kLanes);
  }
}

/// C[num_rows][NV vectors] from A [num_rows, num_k] and B [num_k][NV vectors]: blocks of kRowsPerBlock<NV> rows, then
/// fewer. Not inlined: a call a tile costs nothing, and every user shares one copy.
template <int NV, class ARow, class AK, class Start, class Finish, class T, class Cut = Whole>
HWY_NOINLINE void Product(index_t num_rows, index_t num_k, const T* HWY_RESTRICT a, ARow a_row, AK a_k,
                          const T* HWY_RESTRICT b, index_t b_row, T* HWY_RESTRICT c, index_t c_row, Start start,
                          Finish finish, Cut cut = Cut()) {
  index_t r = 0;
  const auto blocks = [&](auto height) HWY_ATTR {
    constexpr int kHeight = decltype(height)::value;
    for (; r + kHeight <= num_rows; r += kHeight) {
      MicroKernel<kHeight, NV>(num_k, cut.At(r), a + r * a_row, a_row, a_k, b, b_row, c + r * c_row, c_row, start,
                               finish);
    }
  };
  constexpr int kBlock = kRowsPerBlock<NV>;
  blocks(std::integral_constant<int, kBlock>());
  if constexpr (kBlock > 8) blocks(std::integral_constant<int, 8>());
  if constexpr (kBlock > 4) blocks(std::integral_constant<int, 4>());
  if constexpr (kBlock == 4) blocks(std::integral_constant<int, 3>());
  blocks(std::integral_constant<int, 2>());
  blocks(std::integral_constant<int, 1>());
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
