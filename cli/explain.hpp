// What `multihead explain` computes and hands to its two outputs, the terminal and JSON.
#pragma once

#include <string>
#include <vector>

#include "multihead/nn/multi_head_attention.hpp"
#include "multihead/output_file.hpp"
#include "terminal.hpp"

namespace multihead::cli {

/// Something that must hold, with the numbers that show it.
struct Check {
  int step = 0;  ///< 1 .. 6; 0 = of the whole
  bool holds = false;
  std::string text;
};

constexpr index_t kMostShown = 8;  ///< rows and columns of a matrix that are printed

/// One layer on one text. n tokens, E = d_model, H heads of width D. Of the maps, the rows that are printed.
struct Explanation {
  std::string origin;               ///< where input and weights come from, a sentence
  std::vector<std::string> tokens;  ///< [n]
  const nn::MultiHeadAttention<float>& layer;
  Tensor<float, 3> x;                           ///< [1, n, E]
  nn::MultiHeadActivations<float> activations;  ///< q, k [1, n, H, D], v and heads [1, n, H, Dv]
  Tensor<float, 3> y;                           ///< [1, n, E]
  index_t head = 0;                             ///< index within the layer; its numbers are printed
  Tensor<float, 2> scores = {};                 ///< [min(n, kMostShown), n] of `head`, scaled
  Tensor<float, 2> probs = {};                  ///< likewise
  std::vector<Check> checks = {};

  index_t num_tokens() const { return x.shape(1); }
  /// The original number of head h, which is shown and which flags take.
  index_t original_head(index_t h) const { return layer.heads().original_heads[static_cast<std::size_t>(h)]; }
};

/// Runs the layer and fills everything but `checks`.
Explanation explain_layer(const nn::MultiHeadAttention<float>& layer, Tensor<float, 3> x, index_t head,
                          Executor* threads);

/// Head h of an activation [1, n, H, D] as [n, D].
TensorView<const float, 2> of_head(const Tensor<float, 4>& activation, index_t h);

/// Scaled scores and probs of queries [begin, end), each [H, end - begin, n].
struct Maps {
  Tensor<float, 3> scores;
  Tensor<float, 4> probs;  ///< [1, H, end - begin, n]
};
Maps maps_of(const Explanation& explanation, index_t begin, index_t end, Executor* threads);

/// The checks of all steps, each computed anew from the numbers. Long texts: maps are checked on evenly spread rows.
std::vector<Check> checks_of(const Explanation& explanation, Executor* threads);

/// For a terminal of `width` columns, at least 20.
std::string explanation_text(const Explanation& explanation, const Style& style, int width);

/// The most numbers that explanation_json() writes.
constexpr index_t kMostJsonNumbers = index_t{1} << 24;
index_t num_json_numbers(index_t num_tokens, const nn::MultiHeadExtents& size);
void write_explanation_json(const Explanation& explanation, OutputFile& file, Executor* threads);

/// Parameters and multiply-adds of a layer without biases on n tokens.
struct LayerCost {
  index_t num_heads, head_dim;
  index_t parameters;     ///< 4 E H D
  index_t multiply_adds;  ///< n * parameters for the projections, 2 n n H D for scores and weighted sums
  index_t map_entries;    ///< H n n
};
LayerCost layer_cost(index_t num_tokens, index_t d_model, index_t num_heads, index_t head_dim);

}  // namespace multihead::cli
