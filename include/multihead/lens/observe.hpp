// Computes any number of statistics in one pass of an encoder over many segments.
//
// The model runs on a batch of a few segments at a time. Its captured results are passed to every observer and then
// freed, so that memory does not grow with the number of segments.
//
//   observe(encoder, corpus.segments, {{roles, products}}, {.threads = &threads});
#pragma once

#include <functional>
#include <span>

#include "multihead/encoder.hpp"
#include "multihead/lens.hpp"
#include "multihead/lens/corpus.hpp"

namespace multihead::lens {

/// A few consecutive segments and the results of the model for them.
struct ObservedBatch {
  std::span<const Segment> segments;  ///< [B]
  index_t first = 0;                  ///< index of segments[0] among all segments
  const EncoderOutput& output;        ///< captured results; of segment b, entries from num_tokens() on are 0
  Executor* threads = nullptr;

  /// probs [T, T] of one head for segment b. `head` counts the heads that the layer has after any removal.
  HeadMap map(index_t b, index_t layer, index_t head) const;
  /// The output of this head before w_o, [T, Dv].
  TensorView<const float, 2> head_output(index_t b, index_t layer, index_t head) const;
  /// The input of a layer, [T, E]; for `layer` = number of layers, the output of the last one.
  TensorView<const float, 2> hidden(index_t b, index_t layer) const;
};

/// Called for one batch after the other, in the order of the segments, and never by two threads at once.
using Observer = std::function<void(const ObservedBatch&)>;

struct ObserveOptions {
  Capture capture = {.hidden = true, .probs = true, .head_outputs = true};
  std::span<const TensorView<const float, 1>> gates = {};  ///< as EncoderOptions::gates
  index_t batch_bytes = index_t{48} << 20;                 ///< limit for the probs of a batch of two or more segments
  std::function<void(index_t segments_done)> progress = {};
  Executor* threads = nullptr;
};

/// @throws ShapeError  as Encoder::forward, for a segment that is too long
/// @throws Error       if a result of the model is not finite; the text names the segment
///
/// Cost    one forward over all segments. Memory  the captured results of one batch.
/// Threads results are bit-identical for any number of threads.
MULTIHEAD_API void observe(const Encoder& encoder, std::span<const Segment> segments,
                           std::span<const Observer> observers, const ObserveOptions& options = {});

}  // namespace multihead::lens
