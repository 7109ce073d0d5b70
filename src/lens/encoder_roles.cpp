#include "multihead/lens/encoder_roles.hpp"

#include <algorithm>
#include <cmath>

#include "multihead/matmul.hpp"

namespace multihead::lens {
namespace {

/// The segments of the variability: those at the front that have one length.
std::span<const Segment> equal_segments(const Corpus& corpus, index_t most) {
  std::size_t count = 0;
  while (count < corpus.segments.size() && static_cast<index_t>(count) < most &&
         corpus.segments[count].num_tokens() == corpus.segments[0].num_tokens()) {
    ++count;
  }
  return count < 2 ? std::span<const Segment>() : std::span(corpus.segments).first(count);
}

/// |r w_o| of each row r of x [T, Dv], from G = w_o^T w_o [Dv, Dv]: sqrt(r G r^T).
std::vector<double> written_norms(TensorView<const float, 2> x, const Tensor<float, 2>& gram) {
  Tensor<float, 2> product({x.shape(0), x.shape(1)});
  matmul(x, gram.view(), product);
  std::vector<double> norms(static_cast<std::size_t>(x.shape(0)));
  for (index_t i = 0; i < x.shape(0); ++i) {
    double sum = 0;
    for (index_t d = 0; d < x.shape(1); ++d) sum += static_cast<double>(product(i, d)) * x(i, d);
    norms[static_cast<std::size_t>(i)] = std::sqrt(std::max(0.0, sum));
  }
  return norms;
}

/// What is kept of one head.
struct HeadState {
  index_t layer = 0, head = 0;
  nn::HeadView<const float> weights;
  Tensor<float, 2> gram;  // w_o^T w_o [Dv, Dv]
  RoleSums text, repeated;
  Tensor<float, 2> mean;  // of the maps of the variability's segments [T, T]
  double deviation = 0, total = 0;
};

class EncoderPass {
 public:
  EncoderPass(const Encoder& encoder, const Corpus& corpus, const EncoderRolesOptions& options)
      : encoder_(encoder),
        corpus_(corpus),
        options_(options),
        equal_(equal_segments(corpus, options.variability_segments)) {
    for (std::size_t layer = 0; layer < encoder.layers().size(); ++layer) {
      const auto& attention = encoder.layers()[layer].attention;
      for (index_t h = 0; h < attention.num_heads(); ++h)
        heads_.push_back(make_state(attention, static_cast<index_t>(layer), h));
    }
  }

  void run(std::span<const Segment> repeated) {
    std::vector<Observer> observers = {[this](const ObservedBatch& batch) { add_text(batch); }};
    observers.insert(observers.end(), options_.observers.begin(), options_.observers.end());
    observe_all(corpus_.segments, observers, {.hidden = true, .probs = true, .head_outputs = true});
    const Observer add_repeats = [this](const ObservedBatch& batch) { add_repeated(batch); };
    observe_all(repeated, {&add_repeats, 1}, {.probs = true});
    const Observer add_deviations = [this](const ObservedBatch& batch) { add_deviation(batch); };
    observe_all(equal_, {&add_deviations, 1}, {.probs = true});
  }

  std::vector<EncoderHead> result(std::size_t num_repeated) const {
    const Resamples text(static_cast<index_t>(corpus_.segments.size()), options_.seed);
    const Resamples repeated(static_cast<index_t>(num_repeated), options_.seed);
    std::vector<EncoderHead> result(heads_.size());
    run_tasks(options_.threads, static_cast<index_t>(heads_.size()), [&](index_t n, int) {
      const HeadState& state = heads_[static_cast<std::size_t>(n)];
      const auto& attention = encoder_.layers()[static_cast<std::size_t>(state.layer)].attention;
      EncoderHead& head = result[static_cast<std::size_t>(n)];
      head = {.layer = state.layer,
              .head = state.head,
              .number = attention.heads().original_heads[static_cast<std::size_t>(state.head)],
              .roles = judge_roles({.text = &state.text,
                                    .repeated = num_repeated > 0 ? &state.repeated : nullptr,
                                    .layer_output_norm = layer_output_norm(state.layer),
                                    .text_resamples = &text,
                                    .repeated_resamples = &repeated})};
      if (state.total > 0) head.variability = state.deviation / (2 * state.total);
    });
    return result;
  }

 private:
  HeadState make_state(const nn::MultiHeadAttention<float>& attention, index_t layer, index_t h) const {
    HeadState state{
        .layer = layer, .head = h, .weights = attention.head(h), .gram = {}, .text = {}, .repeated = {}, .mean = {}};
    const TensorView<const float, 2> columns = state.weights.w_o.permute({1, 0});  // [Dv, E]
    state.gram = Tensor<float, 2>({columns.shape(0), columns.shape(0)});
    matmul(columns, columns, state.gram);
    if (!equal_.empty()) state.mean = Tensor<float, 2>({equal_[0].num_tokens(), equal_[0].num_tokens()});
    return state;
  }

  void observe_all(std::span<const Segment> segments, std::span<const Observer> observers, const Capture& capture) {
    const index_t before = done_;
    observe(encoder_, segments, observers,
            {.capture = capture,
             .progress =
                 [&](index_t done) {
                   done_ = before + done;
                   if (options_.progress) options_.progress(done_);
                 },
             .threads = options_.threads});
  }

  std::vector<RoleTargets> targets_of(const ObservedBatch& batch) const {
    std::vector<RoleTargets> targets;
    for (const Segment& segment : batch.segments) targets.emplace_back(segment, corpus_.frequencies);
    return targets;
  }

  template <class Add>
  void for_each_map(const ObservedBatch& batch, const Add& add) {
    run_tasks(batch.threads, static_cast<index_t>(heads_.size()), [&](index_t n, int) {
      HeadState& state = heads_[static_cast<std::size_t>(n)];
      for (index_t b = 0; b < static_cast<index_t>(batch.segments.size()); ++b) {
        add(state, b, batch.map(b, state.layer, state.head));
      }
    });
  }

  void add_text(const ObservedBatch& batch) {
    const std::vector<RoleTargets> targets = targets_of(batch);
    for_each_map(batch, [&](HeadState& state, index_t b, HeadMap map) {
      const TensorView<const float, 2> x = batch.hidden(b, state.layer);
      Tensor<float, 2> values({x.shape(0), state.weights.w_v.shape(0)});
      matmul(x, state.weights.w_v, values, {.bias = state.weights.b_v});
      const std::vector<double> value_norms = written_norms(values, state.gram);
      const std::vector<double> output_norms = written_norms(batch.head_output(b, state.layer, state.head), state.gram);
      state.text.add(targets[static_cast<std::size_t>(b)],
                     {.probs = map, .value_norms = value_norms, .output_norms = output_norms});
      if (batch.first + b >= static_cast<index_t>(equal_.size())) return;
      const float part = 1.0f / static_cast<float>(equal_.size());
      for_each_entry(map, [&](index_t i, index_t j) { state.mean(i, j) += part * map(i, j); });
    });
  }

  void add_repeated(const ObservedBatch& batch) {
    const std::vector<RoleTargets> targets = targets_of(batch);
    for_each_map(batch, [&](HeadState& state, index_t b, HeadMap map) {
      state.repeated.add(targets[static_cast<std::size_t>(b)], {.probs = map});
    });
  }

  void add_deviation(const ObservedBatch& batch) {
    for_each_map(batch, [&](HeadState& state, index_t, HeadMap map) {
      for_each_entry(map, [&](index_t i, index_t j) {
        state.deviation += std::abs(map(i, j) - state.mean(i, j));
        state.total += map(i, j);
      });
    });
  }

  template <class Use>
  static void for_each_entry(HeadMap map, const Use& use) {
    for (index_t i = 0; i < map.shape(0); ++i) {
      for (index_t j = 0; j < map.shape(1); ++j) use(i, j);
    }
  }

  std::optional<double> layer_output_norm(index_t layer) const {
    double sum = 0;
    index_t count = 0;
    for (const HeadState& state : heads_) {
      if (state.layer != layer || !state.text.output_norm()) continue;
      sum += *state.text.output_norm(), ++count;
    }
    return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
  }

  const Encoder& encoder_;
  const Corpus& corpus_;
  const EncoderRolesOptions& options_;
  std::span<const Segment> equal_;
  std::vector<HeadState> heads_;
  index_t done_ = 0;
};

}  // namespace

std::vector<EncoderHead> encoder_roles(const Encoder& encoder, const Corpus& corpus, std::span<const Segment> repeated,
                                       const EncoderRolesOptions& options) {
  EncoderPass pass(encoder, corpus, options);
  pass.run(repeated);
  return pass.result(repeated.size());
}

index_t num_runs(const Corpus& corpus, std::span<const Segment> repeated, const EncoderRolesOptions& options) {
  return static_cast<index_t>(corpus.segments.size() + repeated.size() +
                              equal_segments(corpus, options.variability_segments).size());
}

}  // namespace multihead::lens
