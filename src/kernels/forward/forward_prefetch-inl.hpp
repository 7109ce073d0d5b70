// What a forward block prefetches while it computes: the next key tile, the next bias, rows of out, the next block.

#if defined(MULTIHEAD_KERNELS_FORWARD_FORWARD_PREFETCH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_FORWARD_FORWARD_PREFETCH_INL
#undef MULTIHEAD_KERNELS_FORWARD_FORWARD_PREFETCH_INL
#else
#define MULTIHEAD_KERNELS_FORWARD_FORWARD_PREFETCH_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/forward/block_layout-inl.hpp"
#include "kernels/kernels.hpp"
#include "kernels/product/prefetcher-inl.hpp"
#include "kernels/tile/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

template <class T>
struct ForwardPrefetch {
  const ForwardArgs<T>& args;
  const BlockLayout<T>& layout;
  const HeadProblem<T>& problem = args.problem;
  RowPrefetcher rows = {};  // stepped by the products

  /// Rows of the next key tile, if they will be copied: part `part` of `parts`, at once.
  HWY_INLINE void Keys(index_t begin, index_t end, index_t part, index_t parts) const {
    if (problem.pages.table != nullptr) return;
    constexpr PrefetchTo kL2 = PrefetchTo::l2;
    if (problem.copy_keys) PrefetchBurst(problem.k, 0, problem.head_dim, begin, end, kL2, part, parts);
    if (problem.copy_values) PrefetchBurst(problem.v, 0, problem.head_dim_v, begin, end, kL2, part, parts);
  }

  /// The first rows of queries, keys and values of the block that this worker probably runs next.
  HWY_INLINE void Block(const ForwardArgs<T>& block, index_t part, index_t parts) {
    const HeadProblem<T>& s = block.problem;
    const QueryRange queries = QueriesOf(s, block.first_row, std::min(block.num_rows, kKeysPerTile));
    const index_t key_end = std::min(block.key_begin + kKeysPerTile, block.key_end);
    constexpr PrefetchTo kL2 = PrefetchTo::l2;
    if (s.pages.table == nullptr) {
      rows.Add(s.v, 0, s.head_dim_v, block.key_begin, key_end, kL2, part, parts);
      rows.Add(s.k, 0, s.head_dim, block.key_begin, key_end, kL2, part, parts);
    }
    rows.Add(s.q, s.heads[queries.group_head], s.head_dim, queries.begin, queries.end, kL2, part, parts);
  }

  /// Rows of `out` that query tile t is about to write, of its first head.
  HWY_INLINE void Out(index_t t) {
    if (args.upcoming == nullptr || args.partial_acc != nullptr) return;
    const Lanes<T>& lanes = layout.query_tiles[t].lanes;
    const QueryRange queries = QueriesOf(problem, args.first_row + layout.first_row(t), lanes.num_rows);
    const index_t query = queries.begin, end = queries.end;
    rows.Add(args.out, lanes.head[0], problem.head_dim_v, query, end, PrefetchTo::write);
  }

  /// The bias of query tile t, keys [origin, end), of its first head.
  HWY_INLINE void Bias(index_t t, index_t origin, index_t end) {
    if (problem.bias.key_stride != 1 || problem.bias.query_stride == 0) return;
    const Lanes<T>& lanes = layout.query_tiles[t].lanes;
    const index_t query = lanes.query[0], query_end = std::min(query + lanes.num_rows, problem.seqlen_q);
    const DType dtype = problem.bias_dtype;
    const char* const data = static_cast<const char*>(problem.bias.data) + origin * dtype_bytes(dtype);
    const ConstRows bias{data, dtype, problem.bias.query_stride, problem.bias.head_stride};
    rows.Add(bias, lanes.head[0], end - origin, query, query_end, PrefetchTo::l2);
  }
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
