#include "multihead/lens/redundancy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/require.hpp"
#include "core/splitmix64.hpp"
#include "multihead/lens/head_diversity.hpp"
#include "multihead/matmul.hpp"

namespace multihead::lens {
namespace {

/// The head outputs of one half of the segments, without what fills up the shorter ones [n, F].
Tensor<float, 2> rows_of_half(const ObservedBatch& batch, std::size_t layer, index_t half) {
  const Tensor<float, 4>& outputs = batch.output.heads[layer].outputs;  // [B, S, H, Dv]
  const index_t seqlen = outputs.shape(1), features = outputs.shape(2) * outputs.shape(3);
  const auto belongs = [&](std::size_t b) { return (batch.first + static_cast<index_t>(b)) % 2 == half; };
  index_t tokens = 0;
  for (std::size_t b = 0; b < batch.segments.size(); ++b) tokens += belongs(b) ? batch.segments[b].num_tokens() : 0;
  auto rows = Tensor<float, 2>::uninitialized({tokens, features});
  float* to = rows.data();
  for (std::size_t b = 0; b < batch.segments.size(); ++b) {
    const float* const from = outputs.data() + static_cast<index_t>(b) * seqlen * features;
    if (belongs(b)) to = std::copy_n(from, batch.segments[b].num_tokens() * features, to);
  }
  return rows;
}

index_t num_heads_of(const Encoder& encoder) {
  index_t count = 0;
  for (const EncoderLayer& layer : encoder.layers()) count += layer.attention.num_heads();
  return count;
}

std::size_t pair_index(std::size_t a, std::size_t b) { return b * (b - 1) / 2 + a; }  // a < b

Tensor<double, 2> to_double(const Tensor<float, 2>& x) {
  auto result = Tensor<double, 2>::uninitialized(x.shape());
  std::copy_n(x.data(), x.size(), result.data());
  return result;
}

/// Heads that were not compared count as different.
std::vector<index_t> clusters_of(const Tensor<double, 2>& cka) {
  Tensor<double, 2> distance(cka.shape());
  for (index_t n = 0; n < cka.size(); ++n) distance.data()[n] = std::isnan(cka.data()[n]) ? 1 : 1 - cka.data()[n];
  return average_linkage(distance, 1 - kSimilar);
}

/// Root mean square of x - y over the pairs that both have.
double difference(const Tensor<double, 2>& x, const Tensor<double, 2>& y) {
  double sum = 0;
  index_t pairs = 0;
  for (index_t i = 0; i < x.shape(0); ++i) {
    for (index_t j = i + 1; j < x.shape(0); ++j) sum += std::pow(x(i, j) - y(i, j), 2), ++pairs;
  }
  return pairs > 0 ? std::sqrt(sum / static_cast<double>(pairs)) : 0;
}

/// Places the block of two layers, and its transpose below the diagonal.
void place(const Tensor<double, 2>& block, index_t row, index_t column, Tensor<double, 2>& all) {
  for (index_t i = 0; i < block.shape(0); ++i) {
    for (index_t j = 0; j < block.shape(1); ++j) {
      all(row + i, column + j) = all(column + j, row + i) = block(i, j);
    }
  }
}

}  // namespace

std::vector<index_t> Redundancy::nearest(index_t head, index_t count) const {
  std::vector<index_t> others;
  for (index_t other = 0; other < writes.cka.shape(0); ++other) {
    if (other != head && !std::isnan(writes.cka(head, other))) others.push_back(other);
  }
  std::ranges::stable_sort(others, std::ranges::greater(), [&](index_t other) { return writes.cka(head, other); });
  if (static_cast<index_t>(others.size()) > count) others.resize(static_cast<std::size_t>(count));
  return others;
}

double affordable_query_share(const Encoder& encoder, std::span<const Segment> segments) {
  constexpr double kLogarithms = 4e9;
  const auto heads = static_cast<double>(num_heads_of(encoder));
  double cells = 0;
  for (const Segment& segment : segments) cells += std::pow(static_cast<double>(segment.num_tokens()), 2);
  const double needed = heads * (heads - 1) / 2 * cells;
  return needed > kLogarithms ? kLogarithms / needed : 1;
}

HeadComparison::HeadComparison(const Encoder& encoder, const HeadComparisonOptions& options)
    : encoder_(encoder),
      options_(options),
      next_query_(options.seed),
      halves_{make_head_products(encoder), make_head_products(encoder)},
      maps_{MapDistances(num_heads_of(encoder)), MapDistances(num_heads_of(encoder))} {
  const std::vector<HeadProducts>& layers = halves_[0];
  index_t elements = 0;
  for (std::size_t b = 0; b < layers.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) elements += layers[a].features() * layers[b].features();
  }
  if (elements > options.cross_bytes / index_t{sizeof(double)}) return;
  for (std::size_t b = 0; b < layers.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      cross_.push_back(Tensor<double, 2>({layers[a].features(), layers[b].features()}));
    }
  }
}

void HeadComparison::add(const ObservedBatch& batch) {
  const std::size_t layers = halves_[0].size();
  require(batch.output.heads.size() == layers, "HeadComparison::add", "head_outputs of all layers must be captured",
          {{"layers", batch.output.heads.size()}, {"expected", layers}});
  for (const index_t half : {0, 1}) {
    std::vector<Tensor<float, 2>> rows;
    rows.reserve(layers);
    for (std::size_t layer = 0; layer < layers; ++layer) {
      rows.push_back(rows_of_half(batch, layer, half));
      halves_[half][layer].add(rows.back(), batch.threads);
    }
    add_cross(rows, batch.threads);
  }
  for (index_t b = 0; b < static_cast<index_t>(batch.segments.size()); ++b) add_maps(batch, b);
  num_segments_ += static_cast<index_t>(batch.segments.size());
}

void HeadComparison::add_maps(const ObservedBatch& batch, index_t b) {
  std::vector<HeadMap> maps;
  for (std::size_t layer = 0; layer < encoder_.layers().size(); ++layer) {
    const index_t num_heads = encoder_.layers()[layer].attention.num_heads();
    const index_t captured = batch.output.heads[layer].probs.shape(1);
    require(captured == num_heads, "HeadComparison::add", "probs of all heads must be captured",
            {{"layer", layer}, {"captured", captured}, {"num_heads", num_heads}});
    for (index_t h = 0; h < num_heads; ++h) maps.push_back(batch.map(b, static_cast<index_t>(layer), h));
  }
  std::vector<index_t> queries;
  for (index_t q = 0; q < batch.segments[static_cast<std::size_t>(b)].num_tokens(); ++q) {
    const double drawn = static_cast<double>(splitmix64(next_query_) >> 11) * 0x1p-53;  // in [0, 1)
    next_query_ += kSplitMix64Step;
    if (drawn < options_.query_share) queries.push_back(q);
  }
  maps_[static_cast<std::size_t>((batch.first + b) % 2)].add(maps, queries, batch.threads);
}

void HeadComparison::add_cross(const std::vector<Tensor<float, 2>>& rows, Executor* threads) {
  if (cross_.empty() || rows.front().shape(0) == 0) return;
  std::vector<Tensor<double, 2>> exact;
  exact.reserve(rows.size());
  for (const Tensor<float, 2>& each : rows) exact.push_back(to_double(each));
  for (std::size_t b = 0; b < rows.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (exact[a].size() == 0 || exact[b].size() == 0) continue;
      matmul(exact[a].view().permute({1, 0}), exact[b].view().permute({1, 0}), cross_[pair_index(a, b)],
             {.accumulate = true, .threads = threads});
    }
  }
}

WriteSimilarity HeadComparison::all_writes(const std::vector<HeadProducts>& products, Executor* threads) const {
  std::vector<index_t> first = {0};
  for (const EncoderLayer& layer : encoder_.layers()) first.push_back(first.back() + layer.attention.num_heads());
  const index_t count = first.back();
  WriteSimilarity all{.cka = Tensor<double, 2>({count, count}), .cosine = Tensor<double, 2>({count, count})};
  std::fill_n(all.cka.data(), all.cka.size(), std::numeric_limits<double>::quiet_NaN());
  std::fill_n(all.cosine.data(), all.cosine.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t b = 0; b < products.size(); ++b) {
    for (std::size_t a = cross_.empty() ? b : 0; a <= b; ++a) {
      if (products[a].features() == 0 || products[b].features() == 0) continue;
      const LayerWrites of_a{encoder_.layers()[a].attention, products[a]};
      const LayerWrites of_b{encoder_.layers()[b].attention, products[b]};
      const WriteSimilarity block =
          a == b ? write_similarity(of_a, threads) : write_similarity(of_a, of_b, cross_[pair_index(a, b)], threads);
      place(block.cka, first[a], first[b], all.cka);
      place(block.cosine, first[a], first[b], all.cosine);
    }
  }
  return all;
}

Redundancy::HalfDifference HeadComparison::half_difference(Executor* threads) const {
  double squares = 0, pairs = 0;
  for (std::size_t layer = 0; layer < halves_[0].size(); ++layer) {
    const nn::MultiHeadAttention<float>& attention = encoder_.layers()[layer].attention;
    if (attention.num_heads() < 2) continue;
    const double apart = difference(write_similarity({attention, halves_[0][layer]}, threads).cka,
                                    write_similarity({attention, halves_[1][layer]}, threads).cka);
    const auto heads = static_cast<double>(attention.num_heads()), count = heads * (heads - 1) / 2;
    squares += apart * apart * count, pairs += count;
  }
  return {.cka = pairs > 0 ? std::sqrt(squares / pairs) : 0,
          .map_distance = difference(maps_[0].mean(), maps_[1].mean())};
}

Redundancy HeadComparison::result(Executor* threads) const {
  std::vector<HeadProducts> both = make_head_products(encoder_);
  for (const std::vector<HeadProducts>& half : halves_) {
    for (std::size_t layer = 0; layer < both.size(); ++layer) both[layer].add(half[layer]);
  }
  require(num_segments_ > 0, "HeadComparison::result", "a segment must have been added",
          {{"num_segments", num_segments_}});
  MapDistances maps(num_heads_of(encoder_));
  for (const MapDistances& half : maps_) maps.add(half);
  Redundancy result{.layers = std::vector<LayerRedundancy>(both.size()),
                    .writes = all_writes(both, threads),
                    .map_distance = maps.mean(),
                    .num_queries = maps.num_queries(),
                    .cluster = {},
                    .plane = {}};
  result.cluster = clusters_of(result.writes.cka);
  result.plane = plane_map(result.map_distance);
  index_t first = 0;
  for (std::size_t n = 0; n < both.size(); ++n) {
    LayerRedundancy& layer = result.layers[n];
    layer.num_heads = encoder_.layers()[n].attention.num_heads();
    const index_t end = first + layer.num_heads;
    layer.effective_heads = effective_heads(result.writes.cka.view().slice(0, first, end).slice(1, first, end));
    layer.averaging_loss = averaging_loss(both[n], layer.num_heads);
    first = end;
  }
  if (num_segments_ < 2) return result;
  result.halves = half_difference(threads);
  run_tasks(threads, static_cast<index_t>(both.size()), [&](index_t n, int) {
    const auto at = static_cast<std::size_t>(n);
    if (both[at].features() == 0) return;
    LayerRedundancy& layer = result.layers[at];
    layer.fit_tokens = halves_[0][at].num_tokens();
    layer.fit_inputs = both[at].features() / layer.num_heads * (layer.num_heads - 1);
    layer.replaceable = replaceability(encoder_.layers()[at].attention, halves_[0][at], halves_[1][at]);
  });
  return result;
}

}  // namespace multihead::lens
