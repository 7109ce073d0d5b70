// The workspace of a forward block.

#if defined(MULTIHEAD_KERNELS_BLOCK_LAYOUT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_BLOCK_LAYOUT_INL
#undef MULTIHEAD_KERNELS_BLOCK_LAYOUT_INL
#else
#define MULTIHEAD_KERNELS_BLOCK_LAYOUT_INL
#endif

#include "hwy/highway.h"
#include "kernels/key_tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A query tile of a block and what became of it so far.
template <class T>
struct QueryTile {
  Lanes<T> lanes;
  bool has_values;  // whether its sum over values was begun; what stands in its place before is not read
};

/// Where a block's arrays lie in its workspace. Constructed on a null workspace it tells the size.
template <class T>
struct BlockLayout {
  index_t num_rows, num_tiles, head_dim, head_dim_v, first_key_tile, num_key_tiles;
  index_t num_slots;  // key tiles held at once
  T *tile, *bias, *rows;
  T *keys_, *values_, *queries_, *acc_, *softmax_, *history_;
  QueryTile<T>* query_tiles;
  index_t size = 0;

  HWY_INLINE explicit BlockLayout(const ForwardArgs<T>& args) {
    const Scores<T>& s = args.scores;
    num_rows = args.num_rows;
    num_tiles = (num_rows + kTileLanes<T> - 1) / kTileLanes<T>;
    head_dim = s.head_dim;
    head_dim_v = s.head_dim_v;
    first_key_tile = args.key_begin / kKeysPerTile;
    num_key_tiles = args.probs.data == nullptr ? 0 : (args.key_end + kKeysPerTile - 1) / kKeysPerTile - first_key_tile;
    const index_t widest = std::max({kKeysPerTile, PaddedWidth<T>(head_dim), PaddedWidth<T>(head_dim_v)});
    const auto take = [&](index_t count) {
      T* const at = args.workspace == nullptr ? nullptr : args.workspace + size;
      size += PaddedWidth<T>(count);
      return at;
    };
    tile = take(kKeysPerTile * kTileLanes<T>);
    bias = take(HasBiasTile(s) ? kKeysPerTile * kTileLanes<T> : 0);
    rows = take(kTileLanes<T> * widest);
    num_slots = num_tiles <= args.tiles_per_group ? 1 : kTilesPerSegment;
    keys_ = take(NeedsCopy<T>(s.k, s.pages, s.copy_keys) ? num_slots * kKeysPerTile * PaddedWidth<T>(head_dim) : 0);
    values_ =
        take(NeedsCopy<T>(s.v, s.pages, s.copy_values) ? num_slots * kKeysPerTile * PaddedWidth<T>(head_dim_v) : 0);
    queries_ = take(num_tiles * head_dim * kTileLanes<T>);
    acc_ = take(num_tiles * head_dim_v * kTileLanes<T>);
    softmax_ = take(num_tiles * RunningSoftmax<T>::kSize);
    history_ = take(history_size());
    constexpr index_t kTileSize = (sizeof(QueryTile<T>) + sizeof(T) - 1) / sizeof(T);
    query_tiles = reinterpret_cast<QueryTile<T>*>(take(num_tiles * kTileSize));
  }

  /// First row of tile t. Vectors are shared out evenly, 16 of them as 3+3+3+3+2+2: a tile of one vector is slow.
  HWY_INLINE index_t first_row(index_t t) const {
    const index_t vectors = (num_rows + kVectorLanes<T> - 1) / kVectorLanes<T>;
    return std::min(num_rows, (vectors / num_tiles * t + std::min(t, vectors % num_tiles)) * kVectorLanes<T>);
  }

  HWY_INLINE T* keys(index_t slot) const { return keys_ + slot * kKeysPerTile * PaddedWidth<T>(head_dim); }
  HWY_INLINE T* values(index_t slot) const { return values_ + slot * kKeysPerTile * PaddedWidth<T>(head_dim_v); }

  HWY_INLINE T* queries(index_t t) const { return queries_ + t * head_dim * kTileLanes<T>; }
  HWY_INLINE T* acc(index_t t) const { return acc_ + t * head_dim_v * kTileLanes<T>; }
  HWY_INLINE T* softmax(index_t t) const { return softmax_ + t * RunningSoftmax<T>::kSize; }
  /// The maximum in whose units the stored probs of a key tile stand; -infinity where nothing was stored.
  HWY_INLINE T* history(index_t t, index_t key_tile) const {
    return history_ + (t * num_key_tiles + key_tile - first_key_tile) * kTileLanes<T>;
  }
  HWY_INLINE index_t history_size() const { return num_tiles * num_key_tiles * kTileLanes<T>; }
};

template <class T>
index_t ForwardWorkspace(const ForwardArgs<T>& args) {
  return BlockLayout<T>(args).size;
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
