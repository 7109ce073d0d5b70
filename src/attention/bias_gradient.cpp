#include "attention/bias_gradient.hpp"

#include <algorithm>

#include "core/ceil_div.hpp"
#include "core/workspace.hpp"

namespace multihead {
namespace {

constexpr index_t kKeys = kernels::kKeysPerTile;

/// The indices of one axis of the scores whose gradients a block of dbias sums up.
struct Span {
  index_t begin, end;
};

Span span_of(index_t extent, index_t full, index_t block, index_t size) {
  if (extent == 1) return {0, full};
  return {block * size, std::min(full, (block + 1) * size)};
}

index_t blocks_of(index_t extent, index_t size) { return extent == 1 ? 1 : ceil_div(extent, size); }

/// For each query head its kv head and its index in the group.
struct HeadPlace {
  Tensor<index_t, 1> kv_head, in_group;

  HeadPlace(const Problem& problem, const HeadGroups& groups)
      : kv_head({problem.num_heads}), in_group({problem.num_heads}) {
    for (index_t g = 0; g < problem.num_kv_heads; ++g) {
      for (index_t n = 0; n < groups.size(g); ++n) {
        kv_head(groups.of(g)[n]) = g;
        in_group(groups.of(g)[n]) = n;
      }
    }
  }
};

/// Tiles that are summed in T before their sum is added in double, so that any number of tiles can share a bias.
constexpr index_t kTilesPerFold = 64;

/// Sums acc [kKeys][lanes] along broadcast axes and writes the block.
template <class T, class Sum>
void write_block(const TensorView<T, 4>& dbias, index_t b, index_t h, Span i, Span j, const Sum* acc, index_t lanes) {
  const bool one_query = dbias.shape(2) == 1, one_key = dbias.shape(3) == 1;
  const index_t lanes_each = one_query ? lanes : 1, keys_each = one_key ? kKeys : 1;  // summed into one element
  const index_t num_i = one_query ? 1 : i.end - i.begin, num_j = one_key ? 1 : j.end - j.begin;
  for (index_t key = 0; key < num_j; ++key) {
    for (index_t n = 0; n < num_i; ++n) {
      double sum = 0;
      for (index_t more_keys = 0; more_keys < keys_each; ++more_keys) {
        const Sum* const row = acc + (key + more_keys) * lanes + n;
        for (index_t more = 0; more < lanes_each; ++more) sum += double{row[more]};
      }
      dbias(b, h, one_query ? 0 : i.begin + n, one_key ? 0 : j.begin + key) = static_cast<T>(sum);
    }
  }
}

}  // namespace

template <class T>
void bias_gradient(const Problem& problem, const HeadGroups& groups, const OutputView<4>& view,
                   const std::function<kernels::BackwardArgs<T>(index_t b, index_t g)>& args_of) {
  const kernels::Table<T>& kernel = kernels::table<T>();
  const TensorView<T, 4> dbias = view.as<T>();
  if (dbias.size() == 0) return;
  const HeadPlace place(problem, groups);
  const index_t lanes = kernel.lanes, acc_size = kKeys * lanes;
  const index_t blocks_h = dbias.shape(1), blocks_i = blocks_of(dbias.shape(2), lanes);
  const index_t blocks_j = blocks_of(dbias.shape(3), kKeys);
  index_t workspace_size = 0;
  for (index_t b = 0; b < problem.batch; ++b) {
    for (index_t g = 0; g < problem.num_kv_heads; ++g) {
      workspace_size = std::max(workspace_size, kernel.backward_workspace(args_of(b, g)));
    }
  }
  const int workers = num_workers(problem.options->threads);
  const Workspace<T> workspace(workers, acc_size + workspace_size);
  const index_t most_tiles = (dbias.shape(0) == 1 ? problem.batch : 1) * (dbias.shape(1) == 1 ? problem.num_heads : 1) *
                             (dbias.shape(2) == 1 ? blocks_of(problem.seqlen_q, lanes) : 1) *
                             (dbias.shape(3) == 1 ? blocks_of(problem.seqlen_kv, kKeys) : 1);
  const bool is_long = most_tiles > kTilesPerFold;
  const Workspace<double> outer(workers, is_long ? acc_size : 0);
  run_tasks(problem.options->threads, dbias.shape(0) * blocks_h * blocks_i * blocks_j, [&](index_t task, int worker) {
    const index_t block_j = task % blocks_j, block_i = task / blocks_j % blocks_i;
    const index_t block_h = task / (blocks_j * blocks_i) % blocks_h, block_b = task / (blocks_j * blocks_i * blocks_h);
    const Span in_b = span_of(dbias.shape(0), problem.batch, block_b, 1);
    const Span in_h = span_of(dbias.shape(1), problem.num_heads, block_h, 1);
    const Span in_i = span_of(dbias.shape(2), problem.seqlen_q, block_i, lanes);
    const Span in_j = span_of(dbias.shape(3), problem.seqlen_kv, block_j, kKeys);
    T* const acc = workspace.part(worker);
    double* const sums = outer.part(worker);
    std::fill_n(acc, acc_size, T{0});
    std::fill_n(sums, is_long ? acc_size : 0, 0.0);
    index_t num_tiles = 0;
    const auto fold = [&] {
      for (index_t n = 0; n < acc_size; ++n) sums[n] += double{acc[n]};
      std::fill_n(acc, acc_size, T{0});
    };
    for (index_t b = in_b.begin; b < in_b.end; ++b) {
      const Sequence sequence = sequence_of(problem, b);
      for (index_t h = in_h.begin; h < in_h.end; ++h) {
        kernels::BiasGradientArgs<T> args;
        args.backward = args_of(b, place.kv_head(h));
        args.backward.workspace = acc + acc_size;
        args.acc = acc;
        for (index_t i = in_i.begin; i < std::min(in_i.end, sequence.seqlen_q); i += lanes) {
          args.first_row = place.in_group(h) * sequence.seqlen_q + i;
          args.num_rows = std::min(lanes, std::min(in_i.end, sequence.seqlen_q) - i);
          for (args.origin = in_j.begin; args.origin < std::min(in_j.end, sequence.seqlen_kv); args.origin += kKeys) {
            kernel.bias_gradient(args);
            if (++num_tiles % kTilesPerFold == 0 && is_long) fold();
          }
        }
      }
    }
    if (is_long) {
      fold();
      write_block(dbias, block_b, block_h, in_i, in_j, sums, lanes);
    } else {
      write_block(dbias, block_b, block_h, in_i, in_j, acc, lanes);
    }
  });
}

template void bias_gradient(const Problem&, const HeadGroups&, const OutputView<4>&,
                            const std::function<kernels::BackwardArgs<float>(index_t, index_t)>&);
template void bias_gradient(const Problem&, const HeadGroups&, const OutputView<4>&,
                            const std::function<kernels::BackwardArgs<double>(index_t, index_t)>&);

}  // namespace multihead
