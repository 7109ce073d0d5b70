// The part of the backward that every gradient needs: probabilities and score gradients of one (key tile, query tile).
//
//   P  = exp(S - max) / sum                    (3), computed again as in the forward
//   dP = keep * (V dO^T)                       (7), inverts O += keep P V of the forward
//   dS = P * (dP - delta)                      (9), inverts the softmax; hidden pairs exactly 0, whatever their slots
//   hold
//
// Tiles are [key][lane], as in the forward.

#if defined(MULTIHEAD_KERNELS_BACKWARD_SCORE_GRADIENT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_BACKWARD_SCORE_GRADIENT_INL
#undef MULTIHEAD_KERNELS_BACKWARD_SCORE_GRADIENT_INL
#else
#define MULTIHEAD_KERNELS_BACKWARD_SCORE_GRADIENT_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/backward/backward_layout-inl.hpp"
#include "kernels/backward/dot_tile-inl.hpp"
#include "kernels/kernels.hpp"
#include "kernels/product/dot-inl.hpp"
#include "kernels/product/micro_kernel-inl.hpp"
#include "kernels/product/prefetcher-inl.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/convert-inl.hpp"
#include "kernels/simd/exp-inl.hpp"
#include "kernels/simd/transpose-inl.hpp"
#include "kernels/tile/bias_tile-inl.hpp"
#include "kernels/tile/dropout-inl.hpp"
#include "kernels/tile/key_tile-inl.hpp"
#include "kernels/tile/score_order-inl.hpp"
#include "kernels/tile/scores-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Copies the rows of the lanes, zero-padded to whole cache lines; rows without weight (empty ones) become 0.
template <class T>
HWY_INLINE void LoadRows(const ConstRows& from, const Lanes<T>& lanes, index_t width, const T* weight, T* to) {
  const index_t padded = PaddedWidth<T>(width);
  WithType<T>(from.dtype, from.data, [&](const auto* data) HWY_ATTR {
    for (index_t n = 0; n < lanes.num_rows; ++n) {
      T* row = to + n * padded;
      if (weight[n] == T{0}) {
        std::fill_n(row, padded, T{0});
        continue;
      }
      LoadRow(data + RowOffset(from, lanes.query[n], lanes.head[n]), width, row);
      std::fill(row + width, row + padded, T{0});
    }
  });
}

/// The rows of the lanes where they lie in memory, if products can read them there: all have weight, they are whole
/// vectors of T, and they are at most 1 KB apart; otherwise a copy at `to`.
template <class T>
HWY_INLINE TileRows<T> RowsAsTheyLie(const ConstRows& from, const Lanes<T>& lanes, index_t width, const T* weight,
                                     T* to) {
  constexpr index_t kNear = 1024 / sizeof(T);
  const index_t last = lanes.num_rows - 1;
  bool direct = from.dtype == kDType<T> && width % kVectorLanes<T> == 0 && from.token_stride > 0 &&
                from.token_stride < kNear && lanes.head[0] == lanes.head[last] &&
                lanes.query[last] - lanes.query[0] == last;
  for (index_t n = 0; n < lanes.num_rows; ++n) direct = direct && weight[n] != T{0};
  if (direct) {
    return {static_cast<const T*>(from.data) + RowOffset(from, lanes.query[0], lanes.head[0]), from.token_stride};
  }
  LoadRows(from, lanes, width, weight, to);
  return {to, PaddedWidth<T>(width)};
}

/// tile[feature][lane] from rows.
template <class T>
HWY_INLINE void RowsOf(const TileRows<T>& rows, const Lanes<T>& lanes, index_t width, T factor, T* tile) {
  const T* row_of[kMaxLanes];
  for (index_t n = 0; n < lanes.num_rows; ++n) row_of[n] = rows.data + n * rows.stride;
  RowsToTile(row_of, lanes.num_rows, lanes.num_vectors * kVectorLanes<T>, width, factor, tile, kTileLanes<T>);
}

/// One query tile against one key tile.
template <class T>
struct ScoreGradient {
  const BackwardArgs<T>& args;
  const HeadProblem<T>& problem;
  const BackwardLayout<T>& layout;
  Lanes<T> lanes;
  BiasKind bias = BiasKind::none;  // of the pair of tiles last computed
  TileRows<T> q_rows, dout_rows;   // of the lanes
  alignas(64) T shift[kMaxLanes], inverse[kMaxLanes], delta[kMaxLanes];
  alignas(64) T slope_sum[kMaxLanes];  // of -distance * dS

  HWY_INLINE ScoreGradient(const BackwardArgs<T>& a, const BackwardLayout<T>& l)
      : args(a), problem(a.problem), layout(l) {}

  /// Takes in rows [first_row, first_row + num_rows), as those of a slot.
  HWY_NOINLINE void Load(index_t first_row, index_t num_rows, index_t slot, bool by_query) {
    InitLanes(problem, first_row, num_rows, lanes, by_query);
    const auto value = [&](const RowPlane<const T>& from, index_t n) {
      return from.data[lanes.head[n] * from.head_stride + lanes.query[n] * from.query_stride];
    };
    FillLanes(lanes, shift, T{0}, [&](index_t n) {
      const T max = value(args.row_max, n);
      return max == -kInfinity<T> ? T{0} : max;
    });
    FillLanes(lanes, inverse, T{0}, [&](index_t n) {
      const T sum = value(args.row_sum, n);
      return sum == T{0} ? T{0} : T{1} / sum;
    });
    FillLanes(lanes, delta, T{0}, [&](index_t n) { return inverse[n] == T{0} ? T{0} : value(args.delta, n); });
    q_rows = RowsAsTheyLie(problem.q, lanes, problem.head_dim, inverse, layout.query_rows(slot));
    dout_rows = RowsAsTheyLie(args.dout, lanes, problem.head_dim_v, inverse, layout.dout_rows(slot));
    RowsOf(q_rows, lanes, problem.head_dim, problem.scale, layout.queries);
    RowsOf(dout_rows, lanes, problem.head_dim_v, T{1}, layout.douts);
  }

  /// Prefetches the rows that Load takes next, while this tile is computed.
  HWY_INLINE void Prefetch(index_t first_row, index_t num_rows) const {
    if (num_rows <= 0) return;
    const QueryRange queries = QueriesOf(problem, first_row, num_rows);
    const bool by_query = QueryByQuery(problem);
    for (index_t g = by_query ? 0 : queries.group_head; g < (by_query ? problem.heads_per_kv : queries.group_head + 1);
         ++g) {
      PrefetchBurst(problem.q, problem.heads[g], problem.head_dim, queries.begin, queries.end, PrefetchTo::l2);
      PrefetchBurst(args.dout, problem.heads[g], problem.head_dim_v, queries.begin, queries.end, PrefetchTo::l2);
    }
  }

  HWY_INLINE KeyRange Range(index_t origin, index_t begin, index_t end) const {
    return {origin, std::max(lanes.first_begin - origin, begin), std::min(lanes.last_end - origin, end)};
  }

  /// Fills `to`. False when every pair is hidden.
  template <int NV>
  HWY_NOINLINE bool Compute(const KeyRange& keys, const TileRows<T>& k, const TileRows<T>& v, const PairTiles<T>& to) {
    constexpr index_t kRow = kTileLanes<T>;
    bias = BuildBiasTile(problem, lanes, keys, layout.bias, layout.rows);
    if (bias == BiasKind::hides_all) return false;
    const index_t at = keys.begin * kRow;
    if (problem.heads_per_kv * problem.seqlen_q <= kDecodeRows<T>) {
      DotTile(keys, k, problem.head_dim, lanes.num_rows, layout.queries, layout.rows, to.probs);
    } else {
      Product<NV>(keys.end - keys.begin, problem.head_dim, k.data + keys.begin * k.stride, k.stride, One(),
                  layout.queries, Fixed<kRow>(), to.probs + at, kRow, SetZero(), Nothing());
    }
    Product<NV>(keys.end - keys.begin, problem.head_dim_v, v.data + keys.begin * v.stride, v.stride, One(),
                layout.douts, Fixed<kRow>(), to.ds + at, kRow, SetZero(), Nothing());
    const auto weigh = [&](const auto& modify, const auto& hide) HWY_ATTR {
      if (problem.dropout_threshold == 0) {
        Weigh<NV, true>(keys, to, modify, hide);
      } else {
        Weigh<NV, false>(keys, to, modify, hide);
        Drop(keys, to);
        Differentiate<NV>(keys, to, hide);
      }
    };
    if (AllVisible(keys)) {
      const auto same = [](auto, auto x, index_t, index_t) HWY_ATTR { return x; };
      weigh(same, same);
    } else {
      const ScoreModifier<T> modifier = Modifier(keys);
      weigh(
          [&](auto d, auto s, index_t j, index_t n) HWY_ATTR {
            const CapSource source{modifier.At(j, n), layout.cap};
            return ModifiedScore(d, s, source, Visible(d, source));
          },
          [&](auto d, auto x, index_t j, index_t n)
              HWY_ATTR { return hn::IfThenElseZero(Visible(d, modifier.At(j, n)), x); });
      if (args.dslopes != nullptr) SumSlopes(modifier, keys, NV, to);
    }
    return true;
  }

  HWY_INLINE ScoreModifier<T> Modifier(const KeyRange& keys) const {
    return ScoreModifier<T>(problem, lanes, keys, bias == BiasKind::none ? nullptr : layout.bias);
  }

  /// Of the pair of tiles last computed: no softcap, no bias, nothing hidden.
  HWY_INLINE bool AllVisible(const KeyRange& keys) const {
    return IsPlain(problem, lanes, keys) && bias == BiasKind::none;
  }

  /// The terms of scores, where the softcap also stores its derivative 1 - tanh^2 for Uncap.
  struct CapSource : ScoreModifier<T>::Source {
    T* derivative;  // a tile
    template <class D>
    HWY_INLINE hn::Vec<D> Cap(D d, hn::Vec<D> s) const {
      const T softcap = this->modifier.problem.softcap;
      const auto capped = Softcap(d, s, softcap);
      const auto t = hn::Div(capped, hn::Set(d, softcap));
      hn::StoreU(hn::NegMulAdd(t, t, hn::Set(d, T{1})), d, derivative + this->j * kTileLanes<T> + this->n);
      return capped;
    }
  };

  /// Scores to probabilities, and, when nothing comes in between, to their gradients.
  template <int NV, bool kDifferentiate, class Modify, class Hide>
  HWY_INLINE void Weigh(const KeyRange& keys, const PairTiles<T>& to, const Modify& modify, const Hide& hide) const {
    const Tag<T> d;
    for (index_t j = keys.begin; j < keys.end; ++j) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        const index_t n = v * kVectorLanes<T>, at = j * kTileLanes<T> + n;
        const auto s = modify(d, hn::LoadU(d, to.probs + at), j, n);
        const auto weight = hn::Mul(ExpMinus(d, s, hn::LoadU(d, shift + n)), hn::LoadU(d, inverse + n));
        const auto p = hide(d, weight, j, n);
        hn::StoreU(p, d, to.probs + at);
        if constexpr (kDifferentiate) StoreGradient(d, p, at, j, n, to, hide);
      }
    }
  }

  /// dS = P (dP - delta)
  template <class D, class V, class Hide>
  HWY_INLINE void StoreGradient(D d, V p, index_t at, index_t j, index_t n, const PairTiles<T>& to,
                                const Hide& hide) const {
    const auto dp = hn::Sub(hn::LoadU(d, to.ds + at), hn::LoadU(d, delta + n));
    hn::StoreU(hide(d, hn::Mul(p, dp), j, n), d, to.ds + at);
  }

  HWY_NOINLINE void Drop(const KeyRange& keys, const PairTiles<T>& to) const {
    ForEachKeep(problem, lanes, keys, [&](index_t j, index_t n, T factor) HWY_ATTR {
      const index_t at = j * kTileLanes<T> + n;
      to.dropped[at] = to.probs[at] * factor;
      to.ds[at] = factor == T{0} ? T{0} : to.ds[at] * factor;  // dP may be infinite; a NaN row has it in delta
    });
  }

  template <int NV, class Hide>
  HWY_INLINE void Differentiate(const KeyRange& keys, const PairTiles<T>& to, const Hide& hide) const {
    const Tag<T> d;
    for (index_t j = keys.begin; j < keys.end; ++j) {
      for (index_t n = 0; n < NV * kVectorLanes<T>; n += kVectorLanes<T>) {
        const index_t at = j * kTileLanes<T> + n;
        StoreGradient(d, hn::LoadU(d, to.probs + at), at, j, n, to, hide);
      }
    }
  }

  HWY_NOINLINE void SumSlopes(const ScoreModifier<T>& modifier, const KeyRange& keys, int num_vectors,
                              const PairTiles<T>& to) {
    const Tag<T> d;
    for (index_t n = 0; n < num_vectors * kVectorLanes<T>; n += kVectorLanes<T>) {
      auto sum = hn::Zero(d);
      for (index_t j = keys.begin; j < keys.end; ++j) {
        const auto distance = hn::Abs(hn::Sub(hn::LoadU(d, modifier.position + n), hn::Set(d, static_cast<T>(j))));
        sum = hn::NegMulAdd(distance, hn::LoadU(d, to.ds + j * kTileLanes<T> + n), sum);
      }
      hn::StoreU(sum, d, slope_sum + n);
    }
    for (index_t n = 0; n < lanes.num_rows; ++n) args.dslopes[lanes.group_head[n]] += slope_sum[n];
  }

  /// dS of the capped scores to dS of the plain ones.
  HWY_INLINE void Uncap(const KeyRange& keys, const PairTiles<T>& to) const {
    for (index_t j = keys.begin; j < keys.end && problem.softcap != T{0}; ++j) {
      for (index_t n = 0; n < lanes.num_vectors * kVectorLanes<T>; ++n) {
        T& ds = to.ds[j * kTileLanes<T> + n];
        if (ds != T{0}) ds *= layout.cap[j * kTileLanes<T> + n];
      }
    }
  }
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
