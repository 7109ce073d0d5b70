#include "multihead/lens/redundancy.hpp"

#include <algorithm>
#include <limits>

#include "core/require.hpp"
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

std::size_t pair_index(std::size_t a, std::size_t b) { return b * (b - 1) / 2 + a; }  // a < b

Tensor<double, 2> to_double(const Tensor<float, 2>& x) {
  auto result = Tensor<double, 2>::uninitialized(x.shape());
  std::copy_n(x.data(), x.size(), result.data());
  return result;
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

HeadComparison::HeadComparison(const Encoder& encoder, const HeadComparisonOptions& options)
    : encoder_(encoder), halves_{make_head_products(encoder), make_head_products(encoder)} {
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
    for (std::size_t layer = 0; layer < layers; ++layer) {
      rows.push_back(rows_of_half(batch, layer, half));
      halves_[half][layer].add(rows.back(), batch.threads);
    }
    add_cross(rows, batch.threads);
  }
  num_segments_ += static_cast<index_t>(batch.segments.size());
}

void HeadComparison::add_cross(const std::vector<Tensor<float, 2>>& rows, Executor* threads) {
  if (cross_.empty() || rows.front().shape(0) == 0) return;
  std::vector<Tensor<double, 2>> exact;
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

Redundancy HeadComparison::result(Executor* threads) const {
  std::vector<HeadProducts> both = make_head_products(encoder_);
  for (const std::vector<HeadProducts>& half : halves_) {
    for (std::size_t layer = 0; layer < both.size(); ++layer) both[layer].add(half[layer]);
  }
  require(num_segments_ > 0, "HeadComparison::result", "a segment must have been added",
          {{"num_segments", num_segments_}});
  Redundancy result{.layers = std::vector<LayerRedundancy>(both.size()), .writes = all_writes(both, threads)};
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
  run_tasks(threads, static_cast<index_t>(both.size()), [&](index_t n, int) {
    const auto at = static_cast<std::size_t>(n);
    if (both[at].features() == 0) return;
    result.layers[at].replaceable = replaceability(encoder_.layers()[at].attention, halves_[0][at], halves_[1][at]);
  });
  return result;
}

}  // namespace multihead::lens
