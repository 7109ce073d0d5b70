#include "multihead/lens/map_distances.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/require.hpp"
#include "lens/fast_log2.hpp"

namespace multihead::lens {
namespace {

constexpr index_t kLanes = 16;  // sums side by side; rows are filled up to a multiple with zeros, which add 0

/// sum_k m log2 m, m = (a + b) / 2: minus the entropy. For a = b that of a, to the last bit.
float negative_entropy(const float* a, const float* b, index_t width) {
  float sums[kLanes] = {};
  for (index_t k = 0; k < width; k += kLanes) {
    for (index_t lane = 0; lane < kLanes; ++lane) {
      const float m = 0.5f * (a[k + lane] + b[k + lane]);
      sums[lane] += m * fast_log2(m);
    }
  }
  return std::accumulate(sums, sums + kLanes, 0.0f);
}

/// The rows of one head that count, and their entropies.
struct Rows {
  std::vector<float> probs;     // [queries, width]
  std::vector<float> negative;  // [queries] -H

  void read(HeadMap map, std::span<const index_t> queries, index_t width) {
    probs.assign(queries.size() * static_cast<std::size_t>(width), 0.0f);
    negative.resize(queries.size());
    for (std::size_t n = 0; n < queries.size(); ++n) {
      float* const row = probs.data() + n * static_cast<std::size_t>(width);
      for (index_t j = 0; j < map.shape(1); ++j) row[j] = map(queries[n], j);
      negative[n] = negative_entropy(row, row, width);
    }
  }
};

double sum_of_divergences(const Rows& a, const Rows& b, index_t width) {
  double sum = 0;
  for (std::size_t n = 0; n < a.negative.size(); ++n) {
    const std::size_t at = n * static_cast<std::size_t>(width);
    const float mixed = negative_entropy(a.probs.data() + at, b.probs.data() + at, width);
    sum += std::clamp(0.5f * (a.negative[n] + b.negative[n]) - mixed, 0.0f, 1.0f);
  }
  return sum;
}

}  // namespace

MapDistances::MapDistances(index_t num_heads) : sums_({num_heads, num_heads}) {}

void MapDistances::add(std::span<const HeadMap> maps, std::optional<std::span<const index_t>> queries,
                       Executor* threads) {
  const index_t count = sums_.shape(0);
  require(static_cast<index_t>(maps.size()) == count, "MapDistances::add", "there must be one map a head",
          {{"maps", maps.size()}, {"num_heads", count}});
  if (maps.empty()) return;
  const index_t seqlen_q = maps[0].shape(0), seqlen_kv = maps[0].shape(1);
  for (const HeadMap& map : maps) {
    require(map.shape(0) == seqlen_q && map.shape(1) == seqlen_kv, "MapDistances::add", "maps must have one shape",
            {{"map", shape_text(map.shape())}, {"first", shape_text(maps[0].shape())}});
  }
  std::vector<index_t> all(queries ? 0 : static_cast<std::size_t>(seqlen_q));
  std::iota(all.begin(), all.end(), index_t{0});
  const std::span<const index_t> rows = queries.value_or(all);
  for (const index_t each : rows) {
    require(each >= 0 && each < seqlen_q, "MapDistances::add", "queries must be rows of the maps",
            {{"query", each}, {"seqlen_q", seqlen_q}});
  }
  const index_t width = (seqlen_kv + kLanes - 1) / kLanes * kLanes;
  std::vector<Rows> heads(maps.size());
  run_tasks(threads, count, [&](index_t i, int) {
    heads[static_cast<std::size_t>(i)].read(maps[static_cast<std::size_t>(i)], rows, width);
  });
  run_tasks(threads, count, [&](index_t i, int) {
    for (index_t j = i + 1; j < count; ++j) {
      sums_(i, j) += sum_of_divergences(heads[static_cast<std::size_t>(i)], heads[static_cast<std::size_t>(j)], width);
    }
  });
  num_queries_ += static_cast<index_t>(rows.size());
}

void MapDistances::add(const MapDistances& other) {
  require(other.sums_.shape(0) == sums_.shape(0), "MapDistances::add", "both must have the same heads",
          {{"num_heads", other.sums_.shape(0)}, {"expected", sums_.shape(0)}});
  for (index_t n = 0; n < sums_.size(); ++n) sums_.data()[n] += other.sums_.data()[n];
  num_queries_ += other.num_queries_;
}

Tensor<double, 2> MapDistances::mean() const {
  Tensor<double, 2> result(sums_.shape());
  for (index_t i = 0; num_queries_ > 0 && i < result.shape(0); ++i) {
    for (index_t j = i + 1; j < result.shape(0); ++j) {
      result(i, j) = result(j, i) = sums_(i, j) / static_cast<double>(num_queries_);
    }
  }
  return result;
}

}  // namespace multihead::lens
