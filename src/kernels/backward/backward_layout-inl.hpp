// The workspace of a backward block.

#if defined(MULTIHEAD_KERNELS_BACKWARD_BACKWARD_LAYOUT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_BACKWARD_BACKWARD_LAYOUT_INL
#undef MULTIHEAD_KERNELS_BACKWARD_BACKWARD_LAYOUT_INL
#else
#define MULTIHEAD_KERNELS_BACKWARD_BACKWARD_LAYOUT_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/kernels.hpp"
#include "kernels/simd/basics-inl.hpp"
#include "kernels/tile/arena-inl.hpp"
#include "kernels/tile/bias_tile-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Query tiles whose sums for dk and dv are taken in one product: 4 x 24 steps of k for each load and store of the
/// sums.
inline constexpr index_t kTilesPerRun = 4;

/// Key tiles that pass over the queries together: queries and dout are loaded and transposed once for all of them.
inline constexpr index_t kTilesPerPass = 2;

/// Rows whose sums for dk and dv are added up before they go to the outer sums.
inline constexpr index_t kRowsPerFold = 4096;

/// Where the arrays of a backward block lie in its workspace: what there is for each key tile of a pass (p) and for
/// each query tile of a run (slot).
template <class T>
struct BackwardLayout {
  static constexpr index_t kTile = kKeysPerTile * kTileLanes<T>;
  index_t width, width_v;  // padded
  T *cap, *bias, *rows, *queries, *douts;
  bool is_long;  // rows of more than one fold
  index_t size = 0;

  HWY_INLINE explicit BackwardLayout(const BackwardArgs<T>& args) {
    const HeadProblem<T>& s = args.problem;
    width = PaddedWidth<T>(s.head_dim);
    width_v = PaddedWidth<T>(s.head_dim_v);
    Arena<T> arena{args.workspace};
    probs_ = arena.Take(kTilesPerPass * kTilesPerRun * kTile);
    dropped_ = s.dropout_threshold == 0 ? probs_ : arena.Take(kTilesPerPass * kTilesPerRun * kTile);
    ds_ = arena.Take(kTilesPerPass * kTilesPerRun * kTile);
    cap = arena.Take(s.softcap == T{0} ? 0 : kTile);
    bias = arena.Take(HasBiasTile(s) ? kTile : 0);
    rows = arena.Take(kTileLanes<T> * std::max({kKeysPerForwardTile, width, width_v}));
    keys_ = arena.Take(kTilesPerPass * kKeysPerTile * width);
    values_ = arena.Take(kTilesPerPass * kKeysPerTile * width_v);
    queries = arena.Take(kTileLanes<T> * s.head_dim);
    douts = arena.Take(kTileLanes<T> * s.head_dim_v);
    query_rows_ = arena.Take(kTilesPerRun * kTileLanes<T> * width);
    dout_rows_ = arena.Take(kTilesPerRun * kTileLanes<T> * width_v);
    dk_ = arena.Take(kTilesPerPass * kKeysPerTile * width);
    dv_ = arena.Take(kTilesPerPass * kKeysPerTile * width_v);
    round_dk_ = arena.Take(kTilesPerPass * kKeysPerTile * width);
    round_dv_ = arena.Take(kTilesPerPass * kKeysPerTile * width_v);
    is_long = s.heads_per_kv * s.seqlen_q > kRowsPerFold;
    outer_dk_ = arena.Take(is_long ? kTilesPerPass * kKeysPerTile * width : 0);
    outer_dv_ = arena.Take(is_long ? kTilesPerPass * kKeysPerTile * width_v : 0);
    size = arena.size;
  }

  HWY_INLINE T* probs(index_t p, index_t slot) const { return probs_ + (p * kTilesPerRun + slot) * kTile; }
  HWY_INLINE T* dropped(index_t p, index_t slot) const { return dropped_ + (p * kTilesPerRun + slot) * kTile; }
  HWY_INLINE T* ds(index_t p, index_t slot) const { return ds_ + (p * kTilesPerRun + slot) * kTile; }
  HWY_INLINE T* keys(index_t p) const { return keys_ + p * kKeysPerTile * width; }
  HWY_INLINE T* values(index_t p) const { return values_ + p * kKeysPerTile * width_v; }
  HWY_INLINE T* dk(index_t p) const { return dk_ + p * kKeysPerTile * width; }
  HWY_INLINE T* dv(index_t p) const { return dv_ + p * kKeysPerTile * width_v; }
  /// Sums of a round of kTilesPerRun query tiles that is taken in pieces.
  HWY_INLINE T* round_dk(index_t p) const { return round_dk_ + p * kKeysPerTile * width; }
  HWY_INLINE T* round_dv(index_t p) const { return round_dv_ + p * kKeysPerTile * width_v; }
  HWY_INLINE T* outer_dk(index_t p) const { return outer_dk_ + p * kKeysPerTile * width; }
  HWY_INLINE T* outer_dv(index_t p) const { return outer_dv_ + p * kKeysPerTile * width_v; }
  HWY_INLINE T* query_rows(index_t slot) const { return query_rows_ + slot * kTileLanes<T> * width; }
  HWY_INLINE T* dout_rows(index_t slot) const { return dout_rows_ + slot * kTileLanes<T> * width_v; }

 private:
  T *probs_, *dropped_, *ds_, *keys_, *values_, *query_rows_, *dout_rows_, *dk_, *dv_, *round_dk_, *round_dv_,
      *outer_dk_, *outer_dv_;
};

/// P, what dropout left of it, and dS of one pair of tiles.
template <class T>
struct PairTiles {
  T *probs, *dropped, *ds;
  HWY_INLINE PairTiles(const BackwardLayout<T>& layout, index_t p, index_t slot)
      : probs(layout.probs(p, slot)), dropped(layout.dropped(p, slot)), ds(layout.ds(p, slot)) {}
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
