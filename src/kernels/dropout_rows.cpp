// Dropout of rows in f32, compiled once for every target; a function is picked at run time.

#include "kernels/dropout_rows.hpp"

#include <algorithm>
#include <cstdint>

#include "core/philox.hpp"
#include "kernels/instruction_set.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dropout_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/basics-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

using F32 = Tag<float>;
using F32V = hn::Vec<F32>;
using U32 = hn::RebindToUnsigned<F32>;
using U32V = hn::Vec<U32>;

inline constexpr index_t kLanes = kVectorLanes<float>;

#if HWY_TARGET != HWY_SCALAR
// High and low halves of the 32-bit products of x and one factor.
HWY_INLINE void WideProduct(U32V x, std::uint32_t factor, U32V& high, U32V& low) {
  const U32 du;
  const hn::RepartitionToWide<U32> wide;
  const U32V by = hn::Set(du, factor);
  const U32V even = hn::BitCast(du, hn::MulEven(x, by));
  const U32V odd = hn::BitCast(du, hn::MulEven(hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(wide, x))), by));
  low = hn::OddEven(hn::DupEven(odd), even);
  high = hn::OddEven(odd, hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(wide, even))));
}
#endif

// The words of philox(row.key, {quad, row.row, 0, row.sequence}) for kLanes quads, in order of the elements.
HWY_INLINE void PhiloxWords(const DropoutRow& row, index_t first_quad, std::uint32_t* words) {
#if HWY_TARGET == HWY_SCALAR  // has no wider lanes
  const PhiloxBlock block = philox(row.key, {{static_cast<std::uint32_t>(first_quad), row.row, 0, row.sequence}});
  std::copy_n(block.word, 4, words);
#else
  const U32 du;
  U32V x0 = hn::Iota(du, static_cast<std::uint32_t>(first_quad)), x1 = hn::Set(du, row.row), x2 = hn::Zero(du),
       x3 = hn::Set(du, row.sequence);
  auto key0 = static_cast<std::uint32_t>(row.key), key1 = static_cast<std::uint32_t>(row.key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    U32V high0, low0, high1, low1;
    WideProduct(x0, kPhiloxM0, high0, low0);
    WideProduct(x2, kPhiloxM1, high1, low1);
    x0 = hn::Xor(hn::Xor(high1, x1), hn::Set(du, key0));
    x1 = low1;
    x2 = hn::Xor(hn::Xor(high0, x3), hn::Set(du, key1));
    x3 = low0;
    key0 += kPhiloxW0, key1 += kPhiloxW1;
  }
  hn::StoreInterleaved4(x0, x1, x2, x3, du, words);
#endif
}

void DropoutOfRow(const DropoutRow& row, const float* x, float* y, index_t n, bool accumulate) {
  const F32 d;
  const U32 du;
  const U32V threshold = hn::Set(du, row.threshold);
  const F32V scale = hn::Set(d, row.scale);
  HWY_ALIGN std::uint32_t words[4 * kLanes];
  for (index_t begin = 0; begin < n; begin += 4 * kLanes) {
    PhiloxWords(row, begin / 4, words);
    const float* from = x + begin;
    float* to = y + begin;
    const auto kept = [&](index_t i, F32V v) HWY_ATTR {
      const auto drop = hn::RebindMask(d, hn::Lt(hn::Load(du, words + i), threshold));
      return hn::IfThenZeroElse(drop, hn::Mul(v, scale));
    };
    const index_t count = std::min(n - begin, 4 * kLanes);
    index_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const F32V result = kept(i, hn::LoadU(d, from + i));
      hn::StoreU(accumulate ? hn::Add(hn::LoadU(d, to + i), result) : result, d, to + i);
    }
    if (i == count) continue;
    HWY_ALIGN float rest[kLanes] = {};
    std::copy(from + i, from + count, rest);
    hn::Store(kept(i, hn::Load(d, rest)), d, rest);
    for (index_t k = i; k < count; ++k) to[k] = accumulate ? to[k] + rest[k - i] : rest[k - i];
  }
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace multihead::kernels {

HWY_EXPORT(DropoutOfRow);

void dropout_row(const DropoutRow& row, const float* x, float* y, index_t n, bool accumulate) {
  chosen(HWY_DISPATCH_TABLE(DropoutOfRow))(row, x, y, n, accumulate);
}

}  // namespace multihead::kernels
#endif
