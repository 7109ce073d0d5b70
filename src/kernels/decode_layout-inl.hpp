// The workspace of a decode task.

#if defined(MULTIHEAD_KERNELS_DECODE_LAYOUT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_DECODE_LAYOUT_INL
#undef MULTIHEAD_KERNELS_DECODE_LAYOUT_INL
#else
#define MULTIHEAD_KERNELS_DECODE_LAYOUT_INL
#endif

#include "hwy/highway.h"
#include "kernels/dot-inl.hpp"
#include "kernels/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Keys of a tile. It sets the order of sums, so it is the same for every shape.
inline constexpr index_t kKeysPerDecodeTile = 32;

/// Keys that are summed one after the other before the sums go to outer ones: long sums are blocked.
inline constexpr index_t kKeysPerDecodeFold = 8 * kKeysPerDecodeTile;

/// Where the state of the heads lies. Constructed on a null workspace it tells the size.
template <class T>
struct DecodeLayout {
  index_t num_rows, q_row, acc_row, num_key_tiles, head_size, size;
  T* base;

  HWY_INLINE explicit DecodeLayout(const DecodeArgs<T>& args) : base(args.workspace) {
    num_rows = 0;
    for (index_t h = 0; h < args.num_heads; ++h) num_rows = std::max(num_rows, args.heads[h].num_rows);
    const ForwardArgs<T>& head = args.heads[0];
    q_row = VectorWidth<T>(head.scores.head_dim);
    acc_row = VectorWidth<T>(head.scores.head_dim_v);
    num_key_tiles = head.probs.data == nullptr ? 0 : (head.key_end - head.key_begin) / kKeysPerDecodeTile + 1;
    head_size = num_rows * (q_row + 2 * acc_row) + RunningSoftmax<T>::kSize + num_key_tiles * kTileLanes<T>;
    size = args.num_heads * head_size;
  }
  HWY_INLINE T* queries(index_t h) const { return base + h * head_size; }
  HWY_INLINE T* acc(index_t h) const { return queries(h) + num_rows * q_row; }
  /// The sums over whole folds, in the units of acc.
  HWY_INLINE T* outer(index_t h) const { return acc(h) + num_rows * acc_row; }
  HWY_INLINE T* softmax(index_t h) const { return outer(h) + num_rows * acc_row; }
  /// The maxima in whose units the stored probs of a key tile stand.
  HWY_INLINE T* history(index_t h, index_t tile) const {
    return softmax(h) + RunningSoftmax<T>::kSize + tile * kTileLanes<T>;
  }
};

template <class T>
index_t DecodeWorkspace(const DecodeArgs<T>& args) {
  return DecodeLayout<T>(args).size;
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
