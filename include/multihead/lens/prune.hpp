// Removes heads of an encoder, those first that the rest can best do without.
//
//   cost of a head h of layer l, beside the heads S of the layer that have been chosen before
//     loss    F_h (error_l(S + h) - error_l(S)) / mean over tokens of ||O_h||^2
//             error_l: HeadRemoval::error with the compensation that is used; O_h: what the head writes
//             F_h: Importance::fisher, to second order what the vectors lose without the head
//     error   (error_l(S + h) - error_l(S)) / mean over tokens of ||x_l||^2
//             x_l: the input of the layer, to which the output of its heads is added
//     output  mean over tokens of ||O_h||^2, with the same divisor
//     random  a number drawn from the seed
//
// The unit is a query head; a kv head goes with the last query head that reads it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "multihead/lens/corpus.hpp"
#include "multihead/lens/head_removal.hpp"
#include "multihead/sentence_embedding.hpp"

namespace multihead::lens {

enum class Selection : std::uint8_t { loss, error, output, random };

struct PruneOptions {
  Selection selection = Selection::loss;
  Compensation compensation = Compensation::fold;
  SentencePooling pooling = {};  ///< of the vectors of Selection::loss
  double ridge = kDefaultRidge;
  std::uint64_t seed = 1;           ///< of Selection::random, and of the draws behind F_h
  bool allow_empty_layers = false;  ///< otherwise a layer keeps a head
  Executor* threads = nullptr;
};

/// How many heads prune_heads can remove.
MULTIHEAD_API index_t num_removable_heads(const Encoder& encoder, bool allow_empty_layers);

/// One step: runs the text, chooses `count` heads one after the other, removes them and lets the rest make up for them.
/// Several small steps are better than a large one, as costs change with what is gone (docs/lens.md).
///
/// @param text  segments of calibration text: many more tokens than a layer has features, H*Dv
/// @return      the heads that are gone, by their original numbers, in the order in which they were chosen
/// @throws ShapeError  if count is not in [0, num_removable_heads], or there is no segment; also as HeadRemoval and
/// observe
///
/// Cost    a forward over the text (loss: six more, in forwards and backwards over a half of it) and, for fold, about
/// (2 count H + sum of H) solutions with [F, F] matrices, F = H*Dv. Memory  a few [F, F] matrices of doubles per layer.
/// Threads the same heads and bits for any number.
MULTIHEAD_API std::vector<LayerHead> prune_heads(Encoder& encoder, std::span<const Segment> text, index_t count,
                                                 const PruneOptions& options = {});

}  // namespace multihead::lens
