// One pass of an encoder over many segments, for any number of statistics at once.
//
// The model runs on a few segments at a time; what was captured is handed to every observer and then let go, so memory
// does not grow with the number of segments.
//
//   observe(encoder, corpus.segments, {{roles, products}}, {.threads = pool});
#pragma once

#include <functional>
#include <span>

#include "multihead/encoder.hpp"
#include "multihead/lens.hpp"
#include "multihead/lens/corpus.hpp"

namespace multihead::lens {

/// A few segments that follow each other, and what the model did with them.
struct ObservedBatch {
  std::span<const Segment> segments;  ///< [B]
  index_t first = 0;                  ///< number of segments[0] among all of the pass
  const EncoderOutput& output;        ///< as captured; entries of segment b from its num_tokens() on are 0
  Executor* threads = nullptr;

  /// probs [T, T] of one head (counted among those that remain) on segment b.
  HeadMap map(index_t b, index_t layer, index_t head) const;
  /// What it read, [T, Dv].
  TensorView<const float, 2> head_output(index_t b, index_t layer, index_t head) const;
  /// The input of a layer, [T, E]; `layer` = number of layers: the output of the last one.
  TensorView<const float, 2> hidden(index_t b, index_t layer) const;
};

/// Called in the order of the segments, never twice at once.
using Observer = std::function<void(const ObservedBatch&)>;

struct ObserveOptions {
  Capture capture = {.hidden = true, .probs = true, .head_outputs = true};
  std::span<const TensorView<const float, 1>> gates = {};  ///< as EncoderOptions::gates
  index_t batch_bytes = index_t{48} << 20;                 ///< of maps; one segment is always taken
  std::function<void(index_t segments_done)> progress = {};
  Executor* threads = nullptr;
};

/// @throws ShapeError  as Encoder::forward, for a segment that is too long
/// @throws Error       if the model gives numbers that are not finite; names the segment
///
/// Cost    one forward over all segments. Memory  what is captured of one batch.
/// Threads the same bits for any number.
MULTIHEAD_API void observe(const Encoder& encoder, std::span<const Segment> segments,
                           std::span<const Observer> observers, const ObserveOptions& options = {});

}  // namespace multihead::lens
