#include "multihead/lens/importance.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/require.hpp"
#include "core/splitmix64.hpp"
#include "lens/sentence_vector.hpp"

namespace multihead::lens {
namespace {

constexpr std::size_t kBatchSegments = 8;  // that one trace holds

TokenBatch batch_of(std::span<const Segment> segments, index_t pad_id) {
  std::vector<std::vector<index_t>> ids;
  for (const Segment& segment : segments) ids.push_back(segment.ids);
  return pad_batch(ids, pad_id);
}

// What of a text is summed before any head is replaced.
struct LayerSums {
  std::vector<double> sums, squares;  // [H Dv] of head outputs
};

class Pass {
 public:
  Pass(const Encoder& encoder, std::span<const Segment> segments, const ImportanceOptions& options)
      : encoder_(encoder), segments_(segments), options_(options) {
    for (const EncoderLayer& layer : encoder.layers()) {
      first_.push_back(num_heads_);
      num_heads_ += layer.attention.num_heads();
      const auto features =
          static_cast<std::size_t>(layer.attention.num_heads() * layer.attention.extents().head_dim_v);
      layers_.push_back({std::vector<double>(features), std::vector<double>(features)});
    }
    result_.num_segments = static_cast<index_t>(segments.size());
    result_.sensitivity.resize(static_cast<std::size_t>(num_heads_));
    result_.fisher = Tensor<double, 2>({num_heads_, num_heads_});
  }

  Importance run() {
    for_each_trace([&](const EncoderTrace& trace, std::size_t begin) {
      add_moments(trace);
      for (index_t draw = 0; draw < options_.draws; ++draw) add_gradients(trace, begin, draw);
    });
    const double count = static_cast<double>(segments_.size()) * static_cast<double>(options_.draws);
    for (double& each : result_.sensitivity) each /= count;
    for (index_t n = 0; n < result_.fisher.size(); ++n) result_.fisher.data()[n] /= count;
    normalise();
    set_variance();
    if (!options_.ablations.empty()) ablate();
    return std::move(result_);
  }

 private:
  template <class Use>
  void for_each_trace(const Use& use) {
    for (std::size_t begin = 0; begin < segments_.size(); begin += kBatchSegments) {
      const std::size_t count = std::min(kBatchSegments, segments_.size() - begin);
      const TokenBatch batch = batch_of(segments_.subspan(begin, count), encoder_.config().pad_token_id);
      const EncoderTrace trace(encoder_, batch.input(), {.threads = options_.threads});
      step(count, static_cast<double>(layers_.size()));
      use(trace, begin);
    }
  }

  // Work in layers of a segment.
  void step(std::size_t segments, double layers) {
    done_ += static_cast<double>(segments) * layers;
    const auto depth = static_cast<double>(layers_.size());
    double all = depth * (1 + 1.5 * static_cast<double>(options_.draws));
    if (!options_.ablations.empty()) all += depth;
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      all += static_cast<double>(encoder_.layers()[layer].attention.num_heads()) *
             (depth - static_cast<double>(layer)) * static_cast<double>(options_.ablations.size());
    }
    if (options_.progress) options_.progress(std::min(1.0, done_ / (all * static_cast<double>(segments_.size()))));
  }

  void add_moments(const EncoderTrace& trace) {
    num_tokens_ += trace.last_hidden().shape(0);
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const TensorView<const float, 3> outputs = trace.head_outputs(static_cast<index_t>(layer));
      LayerSums& to = layers_[layer];
      for (index_t n = 0; n < outputs.size(); ++n) {
        const auto feature = static_cast<std::size_t>(n) % to.sums.size();
        const double value = outputs.data()[n];
        to.sums[feature] += value;
        to.squares[feature] += value * value;
      }
    }
  }

  // +-1 / sqrt(E)
  std::vector<double> direction(std::size_t segment, index_t draw) const {
    const index_t features = encoder_.config().d_model;
    const std::uint64_t start =
        splitmix64(options_.seed ^
                   splitmix64(segment * static_cast<std::uint64_t>(options_.draws) + static_cast<std::uint64_t>(draw)));
    std::vector<double> r(static_cast<std::size_t>(features));
    std::uint64_t state = start;
    for (double& each : r) {
      each = (splitmix64(state) >> 63 != 0 ? 1 : -1) / std::sqrt(static_cast<double>(features));
      state += kSplitMix64Step;
    }
    return r;
  }

  void add_gradients(const EncoderTrace& trace, std::size_t begin, index_t draw) {
    const TensorView<const index_t, 1> offsets = trace.offsets();
    Tensor<float, 2> d(trace.last_hidden().shape());
    for (index_t b = 0; b + 1 < offsets.shape(0); ++b) {
      const SentenceVector vector(trace.last_hidden().slice(0, offsets(b), offsets(b + 1)), options_.pooling);
      vector.backward(direction(begin + static_cast<std::size_t>(b), draw),
                      d.view().slice(0, offsets(b), offsets(b + 1)));
    }
    const std::vector<Tensor<float, 2>> gradients = trace.gate_gradients(d);
    std::vector<double> g(static_cast<std::size_t>(num_heads_));
    for (index_t b = 0; b + 1 < offsets.shape(0); ++b) {
      for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
        for (index_t h = 0; h < gradients[layer].shape(1); ++h) {
          g[static_cast<std::size_t>(first_[layer] + h)] = gradients[layer](b, h);
        }
      }
      for (index_t h = 0; h < num_heads_; ++h) {
        const double of_h = g[static_cast<std::size_t>(h)];
        result_.sensitivity[static_cast<std::size_t>(h)] += std::abs(of_h);
        for (index_t k = 0; k < num_heads_; ++k) result_.fisher(h, k) += of_h * g[static_cast<std::size_t>(k)];
      }
    }
    step(static_cast<std::size_t>(offsets.shape(0) - 1), 1.5 * static_cast<double>(layers_.size()));
  }

  void normalise() {
    result_.sensitivity_normalised = result_.sensitivity;
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const auto of_layer = std::span(result_.sensitivity_normalised)
                                .subspan(static_cast<std::size_t>(first_[layer]),
                                         static_cast<std::size_t>(encoder_.layers()[layer].attention.num_heads()));
      double squares = 0;
      for (const double each : of_layer) squares += each * each;
      for (double& each : of_layer) each = squares > 0 ? each / std::sqrt(squares) : 0;
    }
  }

  void set_variance() {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const auto& attention = encoder_.layers()[layer].attention;
      const index_t width = attention.extents().head_dim_v;
      for (index_t h = 0; h < attention.num_heads(); ++h) {
        const auto weights = attention.head(h);
        double sum = 0;
        for (index_t c = 0; c < width; ++c) {
          const auto feature = static_cast<std::size_t>(h * width + c);
          const double mean = layers_[layer].sums[feature] / static_cast<double>(num_tokens_);
          const double variance = layers_[layer].squares[feature] / static_cast<double>(num_tokens_) - mean * mean;
          double squares = 0;
          for (index_t e = 0; e < weights.w_o.shape(0); ++e) squares += std::pow(weights.w_o(e, c), 2);
          sum += std::max(0.0, variance) * squares;
        }
        result_.variance.push_back(sum);
      }
    }
  }

  // What takes the place of head h of a layer, for all tokens.
  void replace(const EncoderTrace& trace, std::size_t layer, index_t h, Ablation ablation,
               Tensor<float, 3>& heads) const {
    const TensorView<const index_t, 1> offsets = trace.offsets();
    const index_t width = heads.shape(2);
    for (index_t b = 0; b + 1 < offsets.shape(0); ++b) {
      for (index_t c = 0; c < width; ++c) {
        double value = 0;
        if (ablation == Ablation::mean) {
          value = layers_[layer].sums[static_cast<std::size_t>(h * width + c)] / static_cast<double>(num_tokens_);
        } else if (ablation == Ablation::uniform) {
          const TensorView<const float, 3> values = trace.values(static_cast<index_t>(layer));
          for (index_t i = offsets(b); i < offsets(b + 1); ++i) value += values(i, h, c);
          value /= static_cast<double>(offsets(b + 1) - offsets(b));
        }
        for (index_t i = offsets(b); i < offsets(b + 1); ++i) heads(i, h, c) = static_cast<float>(value);
      }
    }
  }

  void ablate() {
    std::vector<std::vector<BlockSums>> losses(options_.ablations.size(),
                                               std::vector<BlockSums>(static_cast<std::size_t>(num_heads_)));
    for_each_trace([&](const EncoderTrace& trace, std::size_t begin) {
      for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
        for (index_t h = 0; h < encoder_.layers()[layer].attention.num_heads(); ++h) {
          for (std::size_t n = 0; n < options_.ablations.size(); ++n) {
            add_losses(trace, begin, layer, h, options_.ablations[n],
                       losses[n][static_cast<std::size_t>(first_[layer] + h)]);
          }
        }
      }
    });
    const Resamples resamples(result_.num_segments, options_.seed);
    for (std::size_t n = 0; n < options_.ablations.size(); ++n) {
      auto& scores = result_.ablation[static_cast<std::size_t>(options_.ablations[n])];
      scores.clear();
      for (const BlockSums& sums : losses[n]) {
        double loss = 0;
        for (const BlockSums::Block& block : sums.blocks()) loss += block.mass;
        scores.push_back({loss / static_cast<double>(segments_.size()), resamples.lift_interval(sums)});
      }
    }
  }

  void add_losses(const EncoderTrace& trace, std::size_t begin, std::size_t layer, index_t h, Ablation ablation,
                  BlockSums& losses) {
    const TensorView<const float, 3> outputs = trace.head_outputs(static_cast<index_t>(layer));
    Tensor<float, 3> heads(outputs.shape());
    std::copy_n(outputs.data(), outputs.size(), heads.data());
    replace(trace, layer, h, ablation, heads);
    const Tensor<float, 2> last =
        trace.run_from(static_cast<index_t>(layer), heads,
                       ablation == Ablation::pattern ? LaterMaps::recorded : LaterMaps::recomputed);
    const TensorView<const index_t, 1> offsets = trace.offsets();
    for (index_t b = 0; b + 1 < offsets.shape(0); ++b) {
      const SentenceVector full(trace.last_hidden().slice(0, offsets(b), offsets(b + 1)), options_.pooling);
      const SentenceVector without(last.view().slice(0, offsets(b), offsets(b + 1)), options_.pooling);
      losses.add(static_cast<index_t>(begin) + b, {.mass = full.distance(without), .chance = 0, .count = 1});
    }
    step(static_cast<std::size_t>(offsets.shape(0) - 1), static_cast<double>(layers_.size() - layer));
  }

  const Encoder& encoder_;
  std::span<const Segment> segments_;
  const ImportanceOptions& options_;
  std::vector<index_t> first_;  // [L] index of the first head of each layer
  index_t num_heads_ = 0, num_tokens_ = 0;
  std::vector<LayerSums> layers_;
  double done_ = 0;
  Importance result_;
};

}  // namespace

std::string_view ablation_name(Ablation ablation) {
  constexpr std::string_view kNames[] = {"zero", "mean", "uniform", "pattern"};
  return kNames[static_cast<std::size_t>(ablation)];
}

Importance head_importance(const Encoder& encoder, std::span<const Segment> segments,
                           const ImportanceOptions& options) {
  require(!segments.empty(), "head_importance", "there must be a segment", {{"segments", segments.size()}});
  require(options.draws > 0, "head_importance", "draws must be above 0", {{"draws", options.draws}});
  for (std::size_t n = 0; n < segments.size(); ++n) {
    require(!segments[n].ids.empty(), "head_importance", "a segment must have a token", {{"segment", n}});
  }
  return Pass(encoder, segments, options).run();
}

}  // namespace multihead::lens
