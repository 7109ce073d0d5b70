// The edges of a block: packing queries in, and writing out and statistics.

#if defined(MULTIHEAD_KERNELS_FINISH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_FINISH_INL
#undef MULTIHEAD_KERNELS_FINISH_INL
#else
#define MULTIHEAD_KERNELS_FINISH_INL
#endif

#include <cmath>

#include "hwy/highway.h"
#include "kernels/probs-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// packed[feature][lane] = row of each lane * factor. Its lines are asked for at once if they are `far`: written one
/// after the other, each would wait for the L2.
template <class T>
HWY_NOINLINE void PackQueries(const ConstRows& rows, const Lanes<T>& lanes, index_t width, T factor, bool far,
                              T* packed, T* scratch) {
  const index_t ahead = far ? width * kTileLanes<T> : 0;
  for (index_t at = 0; at < ahead; at += kLine<T>) __builtin_prefetch(packed + at, 1, 3);
  WithType<T>(rows.dtype, rows.data, [&](const auto* data) HWY_ATTR {
    const T* row_of[kMaxLanes];
    const index_t padded = PaddedWidth<T>(width);
    for (index_t n = 0; n < lanes.num_rows; ++n) {
      const auto* row = data + RowOffset(rows, lanes.query[n], lanes.head[n]);
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(*row)>, T>) {
        row_of[n] = row;
      } else {
        LoadRow(row, width, scratch + n * padded);
        row_of[n] = scratch + n * padded;
      }
    }
    RowsToTile(row_of, lanes.num_rows, lanes.num_vectors * kVectorLanes<T>, width, factor, packed, kTileLanes<T>);
  });
}

/// Final statistics of a row, from its running ones.
template <class T>
struct FinalRow {
  T inverse;  // factor of the accumulated values: 1/sum; 0 for a row without visible key; NaN where scores are -inf
  T max, sum;

  HWY_INLINE FinalRow(T running_max, T running_sum, bool seen) {
    const bool only_minus_infinity = seen && running_max == -kInfinity<T>;
    max = running_max;
    sum = only_minus_infinity ? std::numeric_limits<T>::quiet_NaN() : running_sum;
    inverse = seen ? T{1} / sum : T{0};
  }
};

/// FinalRow::inverse of a vector of rows.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V InverseSums(D d, V max, V sum, V seen) {
  using T = hn::TFromD<D>;
  const auto only_minus_infinity = hn::Eq(max, hn::Set(d, -kInfinity<T>));
  const auto unseen = hn::Eq(seen, hn::Zero(d));
  const V one = hn::Set(d, T{1});
  const V total = hn::IfThenElse(only_minus_infinity, hn::Set(d, std::numeric_limits<T>::quiet_NaN()), sum);
  return hn::IfThenZeroElse(unseen, hn::Div(one, hn::IfThenElse(unseen, one, total)));
}

template <class T>
HWY_INLINE void WriteStatistics(const ForwardArgs<T>& args, index_t head, index_t query, const FinalRow<T>& row) {
  const auto write = [&](const RowValues<T>& to, auto value) {
    if (to.data != nullptr) to.data[head * to.head_stride + query * to.query_stride] = value();
  };
  write(args.row_max, [&] { return row.max; });
  write(args.row_sum, [&] { return row.sum; });
  write(args.lse, [&] { return row.sum == T{0} ? -kInfinity<T> : row.max + std::log(row.sum); });
}

/// Writes a row of numbers as the output's type.
template <class T>
HWY_INLINE void WriteRow(const Rows& out, index_t query, index_t head, const T* row, index_t width) {
  WithType<T>(out.dtype, out.data, [&](const auto* data) HWY_ATTR {
    using S = std::remove_cvref_t<decltype(*data)>;
    StoreRow(row, width, const_cast<S*>(data) + RowOffset(out, query, head));
  });
}

/// tile[feature][lane] * factor[lane] to the rows of `out`, in its type.
template <class T>
HWY_NOINLINE void WriteTile(const Rows& out, const Lanes<T>& lanes, index_t width, const T* factor, const T* tile,
                            T* scratch) {
  T* row_of[kMaxLanes];
  const bool direct = out.dtype == (sizeof(T) == 8 ? DType::f64 : DType::f32);
  const index_t padded = PaddedWidth<T>(width);
  for (index_t n = 0; n < lanes.num_rows; ++n) {
    row_of[n] =
        direct ? static_cast<T*>(out.data) + RowOffset(out, lanes.query[n], lanes.head[n]) : scratch + n * padded;
  }
  TileToRows(tile, kTileLanes<T>, lanes.num_rows, width, LaneFactors<T>{factor}, row_of);
  if (direct) return;
  for (index_t n = 0; n < lanes.num_rows; ++n) WriteRow(out, lanes.query[n], lanes.head[n], row_of[n], width);
}

/// Ends a query tile: writes its rows, or hands its state over when keys are split.
template <class T>
HWY_NOINLINE void FinishTile(const ForwardArgs<T>& args, const BlockLayout<T>& layout, const Lanes<T>& lanes,
                             index_t t) {
  const RunningSoftmax<T> softmax(layout.softmax(t));
  alignas(64) T factor[kMaxLanes];
  if (args.partial_acc != nullptr) {
    std::fill_n(factor, kMaxLanes, T{1});
    if (args.probs.data != nullptr) FinishProbs(args, layout, lanes, t, factor);
    T* row_of[kMaxLanes];
    const index_t first = layout.first_row(t);
    for (index_t n = 0; n < lanes.num_rows; ++n) {
      row_of[n] = args.partial_acc + (first + n) * args.scores.head_dim_v;
      T* stats = args.partial_stats + (first + n) * kStats;
      stats[0] = softmax.max[n];
      stats[1] = softmax.sum[n];
      stats[2] = softmax.seen[n];
    }
    TileToRows(layout.acc(t), kTileLanes<T>, lanes.num_rows, args.scores.head_dim_v, Unscaled(), row_of);
    return;
  }
  const Tag<T> d;
  for (index_t n = 0; n < lanes.num_vectors * kVectorLanes<T>; n += kVectorLanes<T>) {
    const auto max = hn::LoadU(d, softmax.max + n), sum = hn::LoadU(d, softmax.sum + n);
    hn::StoreU(InverseSums(d, max, sum, hn::LoadU(d, softmax.seen + n)), d, factor + n);
  }
  if (args.row_max.data != nullptr || args.row_sum.data != nullptr || args.lse.data != nullptr) {
    for (index_t n = 0; n < lanes.num_rows; ++n) {
      const FinalRow<T> row(softmax.max[n], softmax.sum[n], softmax.seen[n] != T{0});
      WriteStatistics(args, lanes.head[n], lanes.query[n], row);
    }
  }
  if (args.probs.data != nullptr) FinishProbs(args, layout, lanes, t, factor);
  WriteTile(args.out, lanes, args.scores.head_dim_v, factor, layout.acc(t), layout.rows);
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
