#include "multihead/lens/observe.hpp"

#include <algorithm>
#include <cmath>

#include "core/require.hpp"

namespace multihead::lens {
namespace {

/// How many segments from `begin` on run together: as many as have their maps in batch_bytes, at least one.
std::size_t batch_size(const Encoder& encoder, std::span<const Segment> segments, std::size_t begin, index_t bytes) {
  index_t num_heads = 0;
  for (const EncoderLayer& layer : encoder.layers()) num_heads += layer.attention.num_heads();
  index_t longest = 0;
  std::size_t count = 0;
  while (begin + count < segments.size()) {
    longest = std::max(longest, segments[begin + count].num_tokens());
    const auto needed = static_cast<index_t>(count + 1) * num_heads * longest * longest * index_t{sizeof(float)};
    if (count > 0 && needed > bytes) break;
    ++count;
  }
  return count;
}

void check_finite(const ObservedBatch& batch) {
  for (index_t b = 0; b < static_cast<index_t>(batch.segments.size()); ++b) {
    const TensorView<const float, 2> last = batch.output.last_hidden.view()[b];
    const bool finite = std::all_of(last.data(), last.data() + last.size(), [](float x) { return std::isfinite(x); });
    require<Error>(finite, "observe", "the model must give finite numbers", {{"segment", batch.first + b}});
  }
}

}  // namespace

HeadMap ObservedBatch::map(index_t b, index_t layer, index_t head) const {
  const index_t tokens = segments[static_cast<std::size_t>(b)].num_tokens();
  const TensorView<const float, 4> probs = output.heads[static_cast<std::size_t>(layer)].probs;
  return probs[b][head].slice(0, 0, tokens).slice(1, 0, tokens);
}

TensorView<const float, 2> ObservedBatch::head_output(index_t b, index_t layer, index_t head) const {
  const TensorView<const float, 4> outputs = output.heads[static_cast<std::size_t>(layer)].outputs;
  return outputs[b].permute({1, 0, 2})[head].slice(0, 0, segments[static_cast<std::size_t>(b)].num_tokens());
}

TensorView<const float, 2> ObservedBatch::hidden(index_t b, index_t layer) const {
  const TensorView<const float, 3> hidden = output.hidden[static_cast<std::size_t>(layer)];
  return hidden[b].slice(0, 0, segments[static_cast<std::size_t>(b)].num_tokens());
}

void observe(const Encoder& encoder, std::span<const Segment> segments, std::span<const Observer> observers,
             const ObserveOptions& options) {
  for (std::size_t begin = 0; begin < segments.size();) {
    const std::size_t count = batch_size(encoder, segments, begin, options.batch_bytes);
    std::vector<std::vector<index_t>> ids;
    for (const Segment& segment : segments.subspan(begin, count)) ids.push_back(segment.ids);
    const TokenBatch input = pad_batch(ids, encoder.config().pad_token_id);
    const EncoderOutput output = encoder.forward(
        input.input(), {.capture = options.capture, .gates = options.gates, .threads = options.threads});
    const ObservedBatch batch{.segments = segments.subspan(begin, count),
                              .first = static_cast<index_t>(begin),
                              .output = output,
                              .threads = options.threads};
    check_finite(batch);
    for (const Observer& observer : observers) observer(batch);
    begin += count;
    if (options.progress) options.progress(static_cast<index_t>(begin));
  }
}

}  // namespace multihead::lens
