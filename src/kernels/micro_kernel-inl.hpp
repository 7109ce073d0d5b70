// The one hot primitive: a register block of a matrix product.
//
//   C[r][:] (+)= sum_k A(r, k) * B[k][:]      r < MR rows, NV vectors wide
//
// A is read one scalar at a time, at a + r*a_row + k*a_k, and broadcast: keys, values and weights are used where they
// lie. B and C are rows of NV vectors. The sum runs over k in order for every element, whatever MR and NV are: results
// do not depend on how rows are grouped into blocks.
//
// 4x3 keeps 12 sums, 3 vectors of B and one of A in the 16 registers of AVX2; 8x3 uses 28 of AVX-512's 32. The unroll
// pragmas keep the sums in registers at -O2 as well. Nothing but FMA and loads should be left in the loop over k: what
// else it does is what other threads of the core make slow (docs/performance.md).

#if defined(MULTIHEAD_KERNELS_MICRO_KERNEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_MICRO_KERNEL_INL
#undef MULTIHEAD_KERNELS_MICRO_KERNEL_INL
#else
#define MULTIHEAD_KERNELS_MICRO_KERNEL_INL
#endif

#include <type_traits>

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/walk-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;

/// A stride that is known at compile time: it goes into addresses and costs no instruction.
template <index_t N>
using Fixed = std::integral_constant<index_t, N>;
using One = Fixed<1>;

inline constexpr int kNumVectors = 3;

/// Rows of a register block NV vectors wide. Narrow blocks are higher: too few sums would wait for one another, and
/// every broadcast of A would serve too few of them.
#if HWY_TARGET <= HWY_AVX3
template <int NV>
inline constexpr int kRowsPerBlock = NV == 1   ? 16
                                     : NV == 2 ? 12
                                     : NV == 3 ? 8
                                               : 6;
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

/// What happens to a finished block while it is still in registers; its rows go to c + r*c_row.
struct Nothing {
  template <int MR, int NV, class D, class T>
  HWY_INLINE void Block(D, hn::Vec<D> (&)[MR][NV], const T*, index_t) const {}
};
/// C = C * factor[lane] + sum. The sum is complete before it is added: long sums are blocked.
template <class T>
struct AddScaled {
  const T* factor;
  template <int MR, int NV, class D>
  HWY_INLINE void Block(D d, hn::Vec<D> (&sum)[MR][NV], const T* c, index_t c_row) const {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      const auto scale = hn::LoadU(d, factor + v * kVectorLanes<T>);
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) {
        sum[r][v] = hn::MulAdd(hn::LoadU(d, c + r * c_row + v * kVectorLanes<T>), scale, sum[r][v]);
      }
    }
  }
};
struct AddTo {  // C = C + sum: AddScaled with factors of 1
  template <int MR, int NV, class D, class T>
  HWY_INLINE void Block(D d, hn::Vec<D> (&sum)[MR][NV], const T* c, index_t c_row) const {
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        sum[r][v] = hn::Add(hn::LoadU(d, c + r * c_row + v * kVectorLanes<T>), sum[r][v]);
      }
    }
  }
};
template <class T>
struct KeepMax {  // max[lane] = the larger of it and the block's; a NaN does not replace a number
  T* max;
  template <int MR, int NV, class D>
  HWY_INLINE void Block(D d, hn::Vec<D> (&sum)[MR][NV], const T*, index_t) const {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      auto m = hn::LoadU(d, max + v * kVectorLanes<T>);
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) m = hn::Max(sum[r][v], m);
      hn::StoreU(m, d, max + v * kVectorLanes<T>);
    }
  }
};

/// a * b + sum, in the register that holds the sum. Left to itself g++ 12 moves sums between registers in a long block,
/// runs out of the 16, and loads vectors of B again and again.
template <class D, class V>
HWY_INLINE V AddProduct(D, V a, V b, V sum) {
#if HWY_TARGET <= HWY_AVX2 && HWY_COMPILER_GCC
  auto raw = sum.raw;
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(raw) : "v"(a.raw), "v"(b.raw));
  } else {
    asm("vfmadd231pd %2, %1, %0" : "+v"(raw) : "v"(a.raw), "v"(b.raw));
  }
  return V{raw};
#else
  return hn::MulAdd(a, b, sum);
#endif
}

template <int MR, int NV, class Walk, class ARow, class AK, class BRow, class Start, class Finish, class T>
HWY_INLINE void MicroKernel(index_t num_k, Walk walk, const T* HWY_RESTRICT a, ARow a_row, AK a_k,
                            const T* HWY_RESTRICT b, BRow b_row, T* HWY_RESTRICT c, index_t c_row, Start start,
                            Finish finish) {
  const Tag<T> d;
  constexpr index_t kLanes = kVectorLanes<T>;
  hn::Vec<Tag<T>> sum[MR][NV];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) sum[r][v] = start.Begin(d, c + r * c_row + v * kLanes, v * kLanes);
  }
  const auto step = [&]() HWY_ATTR {
    hn::Vec<Tag<T>> row[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) row[v] = hn::LoadU(d, b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const auto scalar = hn::Set(d, a[r * a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) sum[r][v] = AddProduct(d, scalar, row[v], sum[r][v]);
    }
    a += a_k;
    b += b_row;
  };
  index_t k = 0;
  for (; k + Walk::kUnroll <= num_k; k += Walk::kUnroll) {
    const auto ask_and_step = [&](int u) HWY_ATTR {
      walk.template Ask<MR>(u, a, a_row);
      step();
    };
    if constexpr (MR == kRowsPerBlock<NV>) {
#pragma GCC unroll 24
      for (int u = 0; u < Walk::kUnroll; ++u) ask_and_step(u);
    } else {  // rows that are left over: less code
#pragma GCC unroll 2
      for (int u = 0; u < Walk::kUnroll; ++u) ask_and_step(u);
    }
    a += walk.Jump();
  }
#pragma GCC unroll 1
  for (; k < num_k; ++k) step();
  finish.template Block<MR, NV>(d, sum, c, c_row);
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) hn::StoreU(sum[r][v], d, c + r * c_row + v * kLanes);
  }
}

/// Calls block(height, r) for rows [0, num_rows): blocks of kRowsPerBlock<NV> rows, then fewer.
template <int NV, class Block>
HWY_INLINE void ForRowBlocks(index_t num_rows, const Block& block) {
  index_t r = 0;
  const auto blocks = [&](auto height) HWY_ATTR {
    constexpr int kHeight = decltype(height)::value;
    for (; r + kHeight <= num_rows; r += kHeight) block(height, r);
  };
  constexpr int kBlock = kRowsPerBlock<NV>;
  blocks(std::integral_constant<int, kBlock>());
  if constexpr (kBlock > 8) blocks(std::integral_constant<int, 8>());
  if constexpr (kBlock > 4) blocks(std::integral_constant<int, 4>());
  if constexpr (kBlock == 4) blocks(std::integral_constant<int, 3>());
  blocks(std::integral_constant<int, 2>());
  blocks(std::integral_constant<int, 1>());
}

/// C[num_rows][NV vectors] from A [num_rows, num_k] and B [num_k][NV vectors]. Not inlined: a call a tile costs
/// nothing, and every user shares one copy.
template <int NV, class ARow, class AK, class BRow, class Start, class Finish, class T, class Walk = Whole>
HWY_NOINLINE void Product(index_t num_rows, index_t num_k, const T* HWY_RESTRICT a, ARow a_row, AK a_k,
                          const T* HWY_RESTRICT b, BRow b_row, T* HWY_RESTRICT c, index_t c_row, Start start,
                          Finish finish, Walk walk = Walk()) {
  ForRowBlocks<NV>(num_rows, [&](auto height, index_t r) HWY_ATTR {
    MicroKernel<decltype(height)::value, NV>(num_k, walk.At(r), a + r * a_row, a_row, a_k, b, b_row, c + r * c_row,
                                             c_row, start, finish);
  });
}

/// Steps [at[S], at[S + 1]) of a cut product for vectors from S on, then the following ones for fewer vectors.
template <int S, int MR, int NV, class ARow, class AK, class BRow, class T>
HWY_INLINE void CutSteps(const index_t* at, const T* HWY_RESTRICT a, ARow a_row, AK a_k, const T* HWY_RESTRICT b,
                         BRow b_row, hn::Vec<Tag<T>> (&sum)[MR][NV]) {
  const Tag<T> d;
  const T* HWY_RESTRICT a_step = a + at[S] * a_k;
  const T* HWY_RESTRICT b_step = b + at[S] * b_row;
  for (index_t k = at[S]; k < at[S + 1]; ++k, a_step += a_k, b_step += b_row) {
    hn::Vec<Tag<T>> row[NV];
#pragma GCC unroll 4
    for (int v = S; v < NV; ++v) row[v] = hn::LoadU(d, b_step + v * kVectorLanes<T>);
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const auto scalar = hn::Set(d, a_step[r * a_row]);
#pragma GCC unroll 4
      for (int v = S; v < NV; ++v) sum[r][v] = AddProduct(d, scalar, row[v], sum[r][v]);
    }
  }
  if constexpr (S + 1 < NV) CutSteps<S + 1>(at, a, a_row, a_k, b, b_row, sum);
}

/// Product over steps [at[0], at[NV]) in which vector v takes part in steps before at[v + 1] only. The sums stay in
/// registers throughout, so they are those of Product with zeros in B from there on.
template <int NV, class ARow, class AK, class BRow, class Finish, class T>
HWY_NOINLINE void CutProduct(index_t num_rows, const index_t* at, const T* HWY_RESTRICT a, ARow a_row, AK a_k,
                             const T* HWY_RESTRICT b, BRow b_row, T* HWY_RESTRICT c, index_t c_row, Finish finish) {
  const Tag<T> d;
  ForRowBlocks<NV>(num_rows, [&](auto height, index_t r) HWY_ATTR {
    constexpr int kHeight = decltype(height)::value;
    hn::Vec<Tag<T>> sum[kHeight][NV];
#pragma GCC unroll 16
    for (int i = 0; i < kHeight; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) sum[i][v] = hn::Zero(d);
    }
    CutSteps<0>(at, a + r * a_row, a_row, a_k, b, b_row, sum);
    T* HWY_RESTRICT to = c + r * c_row;
    finish.template Block<kHeight, NV>(d, sum, to, c_row);
#pragma GCC unroll 16
    for (int i = 0; i < kHeight; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) hn::StoreU(sum[i][v], d, to + i * c_row + v * kVectorLanes<T>);
    }
  });
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
