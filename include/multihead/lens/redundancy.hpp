// Which heads of an encoder repeat each other, gathered in one pass over a text.
//
//   HeadComparison comparison(encoder);
//   observe(encoder, corpus.segments, {{[&](const ObservedBatch& batch) { comparison.add(batch); }}}, ..);
//   const Redundancy found = comparison.result();
//
// Even segments are one half of the text, odd ones the other: what is learned on one is judged on the other.
#pragma once

#include <optional>
#include <vector>

#include "multihead/lens/replaceability.hpp"
#include "multihead/lens/write_similarity.hpp"

namespace multihead::lens {

struct LayerRedundancy {
  index_t num_heads = 0;
  double effective_heads = 0;
  std::optional<double> averaging_loss = {};       ///< none without a head that writes
  std::optional<Replaceability> replaceable = {};  ///< none with fewer than two segments, or no head
};

struct Redundancy {
  std::vector<LayerRedundancy> layers;
  /// [N, N] over all heads, layer by layer; NaN for heads of two layers that were not compared.
  WriteSimilarity writes;
};

struct HeadComparisonOptions {
  /// The products of all pairs of layers are kept only if they fit: L (L-1)/2 F^2 doubles, 311 MB for BERT-base. Else
  /// heads are compared within their layer.
  index_t cross_bytes = index_t{512} << 20;
};

/// An observer; the pass needs the capture of head_outputs.
class MULTIHEAD_API HeadComparison {
 public:
  explicit HeadComparison(const Encoder& encoder, const HeadComparisonOptions& options = {});

  /// @throws ShapeError  if head_outputs were not captured
  ///
  /// Cost    n (L F)^2 flops in f64 for n tokens. Memory  L^2/2 + 2 L matrices [F, F] of doubles.
  /// Threads the same bits for any number.
  void add(const ObservedBatch& batch);

  /// @throws ShapeError  if no segment was added
  Redundancy result(Executor* threads = nullptr) const;

 private:
  void add_cross(const std::vector<Tensor<float, 2>>& rows, Executor* threads);
  WriteSimilarity all_writes(const std::vector<HeadProducts>& products, Executor* threads) const;

  const Encoder& encoder_;
  index_t num_segments_ = 0;
  std::vector<HeadProducts> halves_[2];   // [half][layer]
  std::vector<Tensor<double, 2>> cross_;  // pairs of layers a < b: (0,1), (0,2), (1,2), (0,3), ..; empty = left out
};

}  // namespace multihead::lens
