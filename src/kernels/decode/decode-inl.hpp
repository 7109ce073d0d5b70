// Decode: the few query rows of some kv heads of a sequence against a range of keys.
//
//   per key tile, per kv head:
//     S[row][key] = q . k                        DotKeys
//     softcap, bias, ALiBi, mask                 vectors along the keys
//     max, factor = running maximum, exp(old max - new max)
//     P[row][key] = exp(S - max), sum += P
//     O[row][:]   = O * factor + P V             AddValues
//
// Few rows cannot fill the lanes of the tile kernel, and reading memory takes most of the time: each key and value is
// read once for all rows of its group, where it lies. Key tiles are outer and heads inner: a cache of [S, Hkv, D] is
// one stream.

#if defined(MULTIHEAD_KERNELS_DECODE_DECODE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_DECODE_DECODE_INL
#undef MULTIHEAD_KERNELS_DECODE_DECODE_INL
#else
#define MULTIHEAD_KERNELS_DECODE_DECODE_INL
#endif

#include <algorithm>

#include "core/ceil_div.hpp"
#include "hwy/highway.h"
#include "kernels/decode/add_values-inl.hpp"
#include "kernels/decode/decode_layout-inl.hpp"
#include "kernels/kernels.hpp"
#include "kernels/product/dot-inl.hpp"
#include "kernels/product/prefetcher-inl.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/simd/convert-inl.hpp"
#include "kernels/simd/exp-inl.hpp"
#include "kernels/tile/bias_tile-inl.hpp"
#include "kernels/tile/dropout-inl.hpp"
#include "kernels/tile/final_row-inl.hpp"
#include "kernels/tile/finite-inl.hpp"
#include "kernels/tile/key_tile-inl.hpp"
#include "kernels/tile/lane_rows-inl.hpp"
#include "kernels/tile/probs_rows-inl.hpp"
#include "kernels/tile/row_scores-inl.hpp"
#include "kernels/tile/scores-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct DecodeChunk {
  const DecodeArgs<T>& args;
  const HeadProblem<T>& shared;  // of the first head: what all heads have in common
  DecodeLayout<T> layout;
  Lanes<T> lanes[kMaxDecodeHeads];
  LinePrefetcher k_prefetcher, v_prefetcher;
  index_t k_offset[2][kKeysPerDecodeTile], v_offset[2][kKeysPerDecodeTile];  // of this tile and the next
  alignas(64) T tile[kDecodeRows<T> * kKeysPerDecodeTile];                   // [row][key]
  alignas(64) T bias[kKeysPerDecodeTile] = {};                               // of one row; whole vectors are read

  HWY_INLINE explicit DecodeChunk(const DecodeArgs<T>& a) : args(a), shared(a.kv_heads[0].problem), layout(a) {
    for (index_t h = 0; h < args.num_kv_heads; ++h) {
      const ForwardArgs<T>& head = args.kv_heads[h];
      InitLanes(head.problem, head.first_row, head.num_rows, lanes[h]);
      RunningSoftmax<T>(layout.softmax(h)).Init(head.problem, lanes[h], head.key_begin == 0);
      LoadQueries(h);
      std::fill_n(layout.acc(h), head.num_rows * layout.acc_row, T{0});
      std::fill_n(layout.outer(h), head.num_rows * layout.acc_row, T{0});
      if (head.probs.data == nullptr) continue;
      ClearProbs(head, lanes[h], head.key_begin,
                 head.key_end >= head.problem.seqlen_kv ? head.probs_keys : head.key_end);
      std::fill_n(layout.history(h, 0), layout.num_key_tiles * kTileLanes<T>, -kInfinity<T>);
    }
    std::fill_n(tile, kDecodeRows<T> * kKeysPerDecodeTile, T{0});
  }

  HWY_INLINE void LoadQueries(index_t h) {
    const HeadProblem<T>& s = args.kv_heads[h].problem;
    WithType<T>(s.q.dtype, s.q.data, [&](const auto* data) HWY_ATTR {
      for (index_t n = 0; n < lanes[h].num_rows; ++n) {
        T* HWY_RESTRICT row = layout.queries(h) + n * layout.q_row;
        LoadRow(data + RowOffset(s.q, lanes[h].query[n], lanes[h].head[n]), s.head_dim, row);
        for (index_t f = 0; f < s.head_dim; ++f) row[f] *= s.scale;
        std::fill(row + s.head_dim, row + layout.q_row, T{0});
      }
    });
  }

  HWY_INLINE void Run() {
    const ForwardArgs<T>& head = args.kv_heads[0];
    const index_t first = std::max(lanes[0].first_begin, head.key_begin);
    const index_t last = std::min(lanes[0].last_end, head.key_end);
    index_t origin = first / kKeysPerDecodeTile * kKeysPerDecodeTile;
    if (first < last) LoadOffsets(origin, last);
    for (; origin < last && first < last; origin += kKeysPerDecodeTile) {
      LoadOffsets(origin + kKeysPerDecodeTile, last);
      const KeyRange keys{origin, std::max(first - origin, index_t{0}), std::min(last - origin, kKeysPerDecodeTile)};
      StartPrefetch(keys, std::min(last, origin + 2 * kKeysPerDecodeTile));
      for (index_t h = 0; h < args.num_kv_heads; ++h) Tile(h, keys);
      if ((origin + kKeysPerDecodeTile) % kKeysPerDecodeFold != 0) continue;
      for (index_t h = 0; h < args.num_kv_heads; ++h) Fold(h);
    }
    for (index_t h = 0; h < args.num_kv_heads; ++h) Finish(h);
  }

  HWY_INLINE index_t Side(index_t key) const { return key / kKeysPerDecodeTile % 2; }

  HWY_INLINE void LoadOffsets(index_t origin, index_t last) {
    const index_t end = std::min(origin + kKeysPerDecodeTile, last);
    const Pages& pages = shared.pages;
    for (index_t key = origin; key < end; ++key) {
      k_offset[Side(origin)][key - origin] = KeyOffset(shared.k, pages, pages.k_page_stride, key);
      v_offset[Side(origin)][key - origin] = KeyOffset(shared.v, pages, pages.v_page_stride, key);
    }
  }

  /// A row of the stream spans all heads of the task.
  HWY_INLINE void StartPrefetch(const KeyRange& keys, index_t next_end) {
    const index_t next = keys.origin + kKeysPerDecodeTile, num_rows = std::max(next_end - next, index_t{0});
    const index_t quads = (keys.end - keys.begin) / 4 * args.num_kv_heads;
    const auto span = [&](const ConstRows& first, const ConstRows& last, index_t width) {
      return static_cast<const char*>(last.data) - static_cast<const char*>(first.data) +
             width * dtype_bytes(first.dtype);
    };
    const HeadProblem<T>& last = args.kv_heads[args.num_kv_heads - 1].problem;
    const index_t vectors = ceil_div(shared.head_dim_v, kVectorLanes<T>);
    k_prefetcher =
        LinePrefetcher(shared.k, k_offset[Side(next)], num_rows, span(shared.k, last.k, shared.head_dim), quads);
    v_prefetcher = LinePrefetcher(shared.v, v_offset[Side(next)], num_rows, span(shared.v, last.v, shared.head_dim_v),
                                  quads * std::max<index_t>(layout.num_rows * vectors / 8, 1));
  }

  HWY_INLINE void Tile(index_t h, const KeyRange& keys) {
    const HeadProblem<T>& s = args.kv_heads[h].problem;
    const bool has_bias = HasBiasTile(s);
    const bool plain =
        !has_bias && IsPlain(s, lanes[h], keys) && keys.begin % kVectorLanes<T> == 0 && keys.end % kVectorLanes<T> == 0;
    WithType<T>(s.k.dtype, s.k.data, [&](const auto* data) HWY_ATTR {
      DotKeys(ScatteredRows{data, k_offset[Side(keys.origin)], s.head_dim}, keys.begin, keys.end, layout.queries(h),
              layout.q_row, lanes[h].num_rows, tile, kKeysPerDecodeTile, k_prefetcher);
    });
    RunningSoftmax<T> state(layout.softmax(h));
    alignas(64) T tile_max[kMaxLanes], factor[kMaxLanes];
    std::fill_n(tile_max, kMaxLanes, -kInfinity<T>);
    for (index_t n = 0; n < lanes[h].num_rows; ++n) {
      const RowOfScores<T> row(s, lanes[h], n, keys, has_bias ? bias : nullptr);
      bool seen = true;
      tile_max[n] = plain ? row.Max(tile + n * kKeysPerDecodeTile) : row.Apply(tile + n * kKeysPerDecodeTile, seen);
      if (seen) state.seen[n] = T{1};
    }
    if (state.Raise(tile_max, lanes[h].num_vectors, factor)) RescaleSums(h, factor);
    Exponentiate(h, keys, state);
    WithType<T>(s.v.dtype, s.v.data, [&](const auto* data) HWY_ATTR {
      const ScatteredRows values{data, v_offset[Side(keys.origin)], s.head_dim_v};
      if (plain || AllFinite<T>(values, keys.begin, keys.end, values.width)) {
        AddValues(values, keys.begin, keys.end, tile, kKeysPerDecodeTile, lanes[h].num_rows, layout.acc(h),
                  layout.acc_row, v_prefetcher);
      } else {
        AddVisibleValues(h, keys, values);
      }
    });
  }

  HWY_INLINE void RescaleSums(index_t h, const T* HWY_RESTRICT factor) {
    for (index_t n = 0; n < lanes[h].num_rows; ++n) {
      if (factor[n] == T{1}) continue;
      T* HWY_RESTRICT row = layout.acc(h) + n * layout.acc_row;
      T* HWY_RESTRICT outer = layout.outer(h) + n * layout.acc_row;
      for (index_t f = 0; f < layout.acc_row; ++f) row[f] *= factor[n];
      for (index_t f = 0; f < layout.acc_row; ++f) outer[f] *= factor[n];
    }
  }

  /// outer += acc, which starts from zero again.
  HWY_INLINE void Fold(index_t h) {
    T* HWY_RESTRICT acc = layout.acc(h);
    T* HWY_RESTRICT outer = layout.outer(h);
    const index_t count = lanes[h].num_rows * layout.acc_row;
    for (index_t i = 0; i < count; ++i) outer[i] += acc[i];
    std::fill_n(acc, count, T{0});
  }

  /// P = exp(S - max) in place, stored if wanted, with dropout.
  HWY_INLINE void Exponentiate(index_t h, const KeyRange& keys, const RunningSoftmax<T>& state) {
    const ForwardArgs<T>& head = args.kv_heads[h];
    const Tag<T> d;
    for (index_t n = 0; n < lanes[h].num_rows; ++n) {
      T* HWY_RESTRICT row = tile + n * kKeysPerDecodeTile;
      const auto shift = hn::Set(d, state.shift[n]);
      auto sum = hn::Zero(d);
      for (index_t j = keys.begin / kVectorLanes<T> * kVectorLanes<T>; j < keys.end; j += kVectorLanes<T>) {
        const auto p = ExpMinus(d, hn::Load(d, row + j), shift);
        sum = hn::Add(sum, p);
        hn::Store(p, d, row + j);
      }
      state.sum[n] += hn::GetLane(hn::SumOfLanes(d, sum));
      if (head.probs.data == nullptr) continue;
      if (T* to = ProbsRow(head, lanes[h], n))
        std::copy(row + keys.begin, row + keys.end, to + keys.origin + keys.begin);
      layout.history(h, HistoryTile(keys.origin))[n] = state.shift[n];
    }
    if (head.problem.dropout_threshold == 0) return;
    ForEachKeep(head.problem, lanes[h], keys,
                [&](index_t j, index_t n, T factor) HWY_ATTR { tile[n * kKeysPerDecodeTile + j] *= factor; });
  }

  /// For value rows that hold NaN or infinity, perhaps in hidden ones: each row adds what it sees, in the same order.
  template <class S>
  HWY_NOINLINE void AddVisibleValues(index_t h, const KeyRange& keys, const ScatteredRows<S>& values) {
    const HeadProblem<T>& s = args.kv_heads[h].problem;
    index_t seen[kKeysPerDecodeTile];
    T p[kKeysPerDecodeTile];
    for (index_t n = 0; n < lanes[h].num_rows; ++n) {
      const RowOfScores<T> row(s, lanes[h], n, keys, HasBiasTile(s) ? bias : nullptr);
      index_t count = 0;
      for (index_t j = keys.begin; j < keys.end; ++j) {
        if (!row.Sees(j)) continue;
        seen[count] = values.offset[j];
        p[count++] = tile[n * kKeysPerDecodeTile + j];
      }
      AddValues(ScatteredRows<S>{values.data, seen, values.width}, 0, count, p, kKeysPerDecodeTile, 1,
                layout.acc(h) + n * layout.acc_row, layout.acc_row, v_prefetcher);
    }
  }

  HWY_INLINE index_t HistoryTile(index_t key) const { return (key - args.kv_heads[0].key_begin) / kKeysPerDecodeTile; }

  /// Writes the rows of a head, or hands its state over when keys are split.
  HWY_NOINLINE void Finish(index_t h) {
    const ForwardArgs<T>& head = args.kv_heads[h];
    const RunningSoftmax<T> state(layout.softmax(h));
    const index_t width = head.problem.head_dim_v;
    Fold(h);
    for (index_t n = 0; n < lanes[h].num_rows; ++n) {
      T* HWY_RESTRICT acc = layout.outer(h) + n * layout.acc_row;
      T factor = T{1};
      if (head.partial_acc != nullptr) {
        std::copy_n(acc, width, head.partial_acc + n * width);
        T* stats = head.partial_stats + n * kStats;
        stats[0] = state.max[n];
        stats[1] = state.sum[n];
        stats[2] = state.seen[n];
      } else {
        const FinalRow<T> row(state.max[n], state.sum[n], state.seen[n] != T{0});
        factor = row.inverse;
        for (index_t f = 0; f < width; ++f) acc[f] *= factor;
        WriteRow(head.out, lanes[h].query[n], lanes[h].head[n], acc, width);
        WriteStatistics(head, lanes[h].head[n], lanes[h].query[n], row);
      }
      if (head.probs.data != nullptr) FinishRowProbs(h, n, state.shift[n], factor);
    }
  }

  /// Rescales the stored probs of a row from the running maximum of their time to the final one, times `last`.
  HWY_INLINE void FinishRowProbs(index_t h, index_t n, T shift, T last) {
    const ForwardArgs<T>& head = args.kv_heads[h];
    const Tag<T> d;
    for (index_t t = 0; t < layout.num_key_tiles; ++t) {
      const index_t begin = head.key_begin + t * kKeysPerDecodeTile;
      const T then = std::min(layout.history(h, t)[n], shift);  // not above it, as where no key was seen yet
      const T change = hn::GetLane(ExpMinus(d, hn::Set(d, then), hn::Set(d, shift)));
      ScaleProbs(head, lanes[h], n, begin, std::min(begin + kKeysPerDecodeTile, head.key_end), change * last);
    }
  }
};

template <class T>
void DecodeKernel(const DecodeArgs<T>& args) {
  DecodeChunk<T>(args).Run();
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
