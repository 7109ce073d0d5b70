// Dropout of a tile of probabilities: kept ones times 1/(1-p), the others times 0. The choice is
// dropout_keeps()'s. A dropped key is visible all the same: the NaN of its row stays NaN.

#if defined(MULTIHEAD_KERNELS_TILE_DROPOUT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILE_DROPOUT_INL
#undef MULTIHEAD_KERNELS_TILE_DROPOUT_INL
#else
#define MULTIHEAD_KERNELS_TILE_DROPOUT_INL
#endif

#include <cstdint>

#include "core/philox.hpp"
#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

/// Calls keep(j, lane) -> factor (0 or keep_scale) for keys [begin, end) and the used lanes.
template <class T, class Fn>
HWY_INLINE void ForEachKeep(const HeadProblem<T>& problem, const Lanes<T>& lanes, const KeyRange& keys, const Fn& fn) {
  const index_t first = keys.origin + keys.begin, last = keys.origin + keys.end;
  for (index_t quad = first / 4; quad * 4 < last; ++quad) {
    for (index_t n = 0; n < lanes.num_rows; ++n) {
      const PhiloxBlock block =
          philox(problem.dropout_seed,
                 dropout_counter(static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(lanes.query[n]),
                                 static_cast<std::uint32_t>(lanes.head[n]), problem.sequence_id));
      for (index_t w = 0; w < 4; ++w) {
        const index_t j = quad * 4 + w;
        if (j < first || j >= last) continue;
        fn(j - keys.origin, n, block.word[w] >= problem.dropout_threshold ? problem.keep_scale : T{0});
      }
    }
  }
}

template <class T>
HWY_NOINLINE void ApplyDropout(const HeadProblem<T>& problem, const Lanes<T>& lanes, const KeyRange& keys,
                               T* HWY_RESTRICT tile) {
  ForEachKeep(problem, lanes, keys,
              [&](index_t j, index_t n, T factor) HWY_ATTR { tile[j * kTileLanes<T> + n] *= factor; });
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
