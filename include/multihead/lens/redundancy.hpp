// Which heads of an encoder repeat each other, gathered in one pass over a text.
//
//   HeadComparison comparison(encoder);
//   observe(encoder, corpus.segments, {{[&](const ObservedBatch& batch) { comparison.add(batch); }}});
//   const Redundancy found = comparison.result();
//
// Even segments are one half of the text, odd ones the other: what is learned on one is judged on the other.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "multihead/lens/head_clusters.hpp"
#include "multihead/lens/map_distances.hpp"
#include "multihead/lens/replaceability.hpp"
#include "multihead/lens/write_similarity.hpp"

namespace multihead::lens {

struct LayerRedundancy {
  index_t num_heads = 0;
  double effective_heads = 0;
  std::optional<double> averaging_loss = {};       ///< none without a head that writes
  index_t fit_tokens = 0, fit_inputs = 0;          ///< tokens that `replaceable` was fitted on, and features
  std::optional<Replaceability> replaceable = {};  ///< none with fewer than two segments, or no head
};

constexpr double kNearDuplicate = 0.95, kSimilar = 0.8;  ///< CKA

/// Pairs of heads [N, N] over all heads, layer by layer.
struct MULTIHEAD_API Redundancy {
  std::vector<LayerRedundancy> layers;
  WriteSimilarity writes;          ///< NaN for heads of two layers that were not compared
  Tensor<double, 2> map_distance;  ///< J, mean Jensen-Shannon divergence of the maps in bits
  index_t num_queries = 0;         ///< that J is a mean over
  std::vector<index_t> cluster;    ///< [N] by average linkage on 1 - CKA, joined while the mean CKA is kSimilar
  PlaneMap plane;                  ///< of the distances sqrt(J)

  /// Root mean square of the difference of a value between the two halves of the text; none with fewer than two
  /// segments or heads. CKA: pairs within a layer.
  struct HalfDifference {
    double cka = 0, map_distance = 0;
  };
  std::optional<HalfDifference> halves = {};

  /// The heads that write most like one, at most `count`, the most alike first.
  std::vector<index_t> nearest(index_t head, index_t count) const;
};

struct HeadComparisonOptions {
  /// The products of all pairs of layers are kept only if they fit: L (L-1)/2 F^2 doubles, 311 MB for BERT-base. Else
  /// heads are compared within their layer.
  index_t cross_bytes = index_t{512} << 20;
  double query_share = 1;  ///< of the queries whose maps are compared, drawn at random
  std::uint64_t seed = 1;  ///< of that draw
};

/// The share of queries with which all pairs of maps take about 4e9 logarithms, a few seconds; at most 1.
MULTIHEAD_API double affordable_query_share(const Encoder& encoder, std::span<const Segment> segments);

/// An observer; the pass needs the capture of probs and head_outputs, of all heads.
class MULTIHEAD_API HeadComparison {
 public:
  explicit HeadComparison(const Encoder& encoder, const HeadComparisonOptions& options = {});

  /// @throws ShapeError  if probs or head_outputs were not captured
  ///
  /// Cost    n (L F)^2 flops in f64 for n tokens, and that of MapDistances. Memory  L^2/2 + 2 L matrices [F, F] of
  /// doubles. Threads the same bits for any number.
  void add(const ObservedBatch& batch);

  /// @throws ShapeError  if no segment was added
  Redundancy result(Executor* threads = nullptr) const;

 private:
  void add_maps(const ObservedBatch& batch, index_t b);
  void add_cross(const std::vector<Tensor<float, 2>>& rows, Executor* threads);
  Redundancy::HalfDifference half_difference(Executor* threads) const;
  WriteSimilarity all_writes(const std::vector<HeadProducts>& products, Executor* threads) const;

  const Encoder& encoder_;
  HeadComparisonOptions options_;
  index_t num_segments_ = 0;
  std::uint64_t next_query_;
  std::vector<HeadProducts> halves_[2];   // [half][layer]
  MapDistances maps_[2];                  // [half]
  std::vector<Tensor<double, 2>> cross_;  // pairs of layers a < b: (0,1), (0,2), (1,2), (0,3), ..; empty = left out
};

}  // namespace multihead::lens
