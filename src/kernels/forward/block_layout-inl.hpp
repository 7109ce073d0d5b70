// The workspace of a forward block.

#if defined(MULTIHEAD_KERNELS_FORWARD_BLOCK_LAYOUT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_FORWARD_BLOCK_LAYOUT_INL
#undef MULTIHEAD_KERNELS_FORWARD_BLOCK_LAYOUT_INL
#else
#define MULTIHEAD_KERNELS_FORWARD_BLOCK_LAYOUT_INL
#endif

#include <algorithm>

#include "core/ceil_div.hpp"
#include "hwy/highway.h"
#include "kernels/forward/outer_sums-inl.hpp"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/tile/arena-inl.hpp"
#include "kernels/tile/bias_tile-inl.hpp"
#include "kernels/tile/key_tile-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A query tile of a block and its state.
template <class T>
struct QueryTile {
  Lanes<T> lanes;
  bool has_values;  // whether its sum over values was begun; before that, its memory is not read
  index_t fold;     // of the last key tile it was computed with
};

/// A key tile that is loaded.
template <class T>
struct KeySlot {
  KeyRange keys{-1, 0, 0};  // what is loaded
  TileRows<T> k_rows, v_rows;
  enum class Finite { unknown, yes, no } values_finite;
};

/// Where a block's arrays lie in its workspace. Constructed on a null workspace it tells the size.
template <class T>
struct BlockLayout {
  index_t num_rows, num_tiles, head_dim, head_dim_v, first_key_tile, num_key_tiles;
  index_t tiles_per_group;
  index_t num_slots;  // key tiles held at once
  bool keeps_probs;   // P of all key tiles, for the query tiles of a group
  bool is_long;       // keys of more than one fold
  T *bias, *rows;
  T *keys_, *values_, *queries_, *acc_, *softmax_, *outer_, *tiles_, *history_;
  QueryTile<T>* query_tiles;
  KeySlot<T>* slots;
  index_t size = 0;

  HWY_INLINE explicit BlockLayout(const ForwardArgs<T>& args) {
    const HeadProblem<T>& s = args.problem;
    num_rows = args.num_rows;
    num_tiles = ceil_div(num_rows, kTileLanes<T>);
    head_dim = s.head_dim;
    head_dim_v = s.head_dim_v;
    first_key_tile = args.key_begin / kKeysPerForwardTile;
    num_key_tiles = ceil_div(args.key_end, kKeysPerForwardTile) - first_key_tile;
    tiles_per_group = std::min(args.tiles_per_group, num_tiles);
    keeps_probs = args.probs.data != nullptr;
    is_long = args.key_end - args.key_begin > kKeysPerFold;
    const index_t widest = std::max({kKeysPerForwardTile, PaddedWidth<T>(head_dim), PaddedWidth<T>(head_dim_v)});
    Arena<T> arena{args.workspace};
    bias = arena.Take(HasBiasTile(s) ? kKeysPerForwardTile * kTileLanes<T> : 0);
    rows = arena.Take(kTileLanes<T> * widest);
    num_slots = num_tiles == tiles_per_group ? 1
                : keeps_probs                ? num_key_tiles
                                             : kTilesPerSegment * kKeysPerTile / kKeysPerForwardTile;
    const index_t slot_keys = num_slots * kKeysPerForwardTile;
    keys_ = arena.Take(NeedsCopy<T>(s.k, s.pages, s.copy_keys) ? slot_keys * PaddedWidth<T>(head_dim) : 0);
    values_ = arena.Take(NeedsCopy<T>(s.v, s.pages, s.copy_values) ? slot_keys * PaddedWidth<T>(head_dim_v) : 0);
    queries_ = arena.Take(num_tiles * head_dim * kTileLanes<T>);
    acc_ = arena.Take(num_tiles * head_dim_v * kTileLanes<T>);
    softmax_ = arena.Take(num_tiles * RunningSoftmax<T>::kSize);
    outer_ = arena.Take(is_long ? num_tiles * OuterSums<T>::Size(head_dim_v) : 0);
    tiles_ = arena.Take((1 + (keeps_probs ? tiles_per_group * num_key_tiles : 0)) * kTileSize);
    history_ = arena.Take(history_size());
    query_tiles = arena.template TakeObjects<QueryTile<T>>(num_tiles);
    slots = arena.template TakeObjects<KeySlot<T>>(num_slots);
    size = arena.size;
  }

  /// First row of tile t. Vectors are distributed evenly, 16 of them as 3+3+3+3+2+2: a tile of one vector is slow.
  HWY_INLINE index_t first_row(index_t t) const {
    const index_t vectors = ceil_div(num_rows, kVectorLanes<T>);
    return std::min(num_rows, (vectors / num_tiles * t + std::min(t, vectors % num_tiles)) * kVectorLanes<T>);
  }

  HWY_INLINE T* keys(index_t slot) const { return keys_ + slot * kKeysPerForwardTile * PaddedWidth<T>(head_dim); }
  HWY_INLINE T* values(index_t slot) const { return values_ + slot * kKeysPerForwardTile * PaddedWidth<T>(head_dim_v); }

  HWY_INLINE T* queries(index_t t) const { return queries_ + t * head_dim * kTileLanes<T>; }
  HWY_INLINE T* acc(index_t t) const { return acc_ + t * head_dim_v * kTileLanes<T>; }
  HWY_INLINE T* softmax(index_t t) const { return softmax_ + t * RunningSoftmax<T>::kSize; }

  HWY_INLINE OuterSums<T> outer(index_t t) const { return OuterSums<T>(outer_ + t * OuterSums<T>::Size(head_dim_v)); }

  /// Scores, then P, of a pair of tiles: one that is used again, or its own until the query tile ends.
  HWY_INLINE T* tile(index_t t, index_t key_tile) const {
    return keeps_probs ? tiles_ + (1 + pair(t, key_tile)) * kTileSize : tiles_;
  }
  HWY_INLINE T* spare_tile() const { return tiles_; }
  /// The running maximum that a kept tile is relative to; -infinity where there is none.
  HWY_INLINE T* history(index_t t, index_t key_tile) const { return history_ + pair(t, key_tile) * kTileLanes<T>; }
  HWY_INLINE index_t history_size() const { return keeps_probs ? tiles_per_group * num_key_tiles * kTileLanes<T> : 0; }

 private:
  static constexpr index_t kTileSize = kKeysPerForwardTile * kTileLanes<T>;
  HWY_INLINE index_t pair(index_t t, index_t key_tile) const {
    return t % tiles_per_group * num_key_tiles + key_tile - first_key_tile;
  }
};

template <class T>
index_t ForwardWorkspace(const ForwardArgs<T>& args) {
  return BlockLayout<T>(args).size;
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
