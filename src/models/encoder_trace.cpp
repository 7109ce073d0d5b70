#include "multihead/encoder_trace.hpp"

#include <utility>

#include "core/require.hpp"
#include "models/packed_input.hpp"
#include "multihead/matmul.hpp"

namespace multihead {
namespace {

constexpr const char* kFunction = "EncoderTrace";

// [1, n, ..]
TensorView<float, 3> as_batch(Tensor<float, 2>& x) { return {x.data(), {1, x.shape(0), x.shape(1)}}; }
TensorView<const float, 3> as_batch(const Tensor<float, 2>& x) { return {x.data(), {1, x.shape(0), x.shape(1)}}; }

void add(const Tensor<float, 2>& from, Tensor<float, 2>& to) {
  for (index_t n = 0; n < to.size(); ++n) to.data()[n] += from.data()[n];
}

// What one layer computed.
struct LayerSteps {
  Tensor<float, 1> gates;                     // [H]; without data = 1
  Tensor<float, 2> x;                         // [tokens, E] input
  nn::MultiHeadActivations<float> attention;  //
  Tensor<float, 2> attended;                  // [tokens, E] x + attention(x)
  Tensor<float, 2> middle;                    // [tokens, E] norm(attended)
  nn::FeedForwardActivations<float> feed_forward;
  Tensor<float, 2> fed;  // [tokens, E] middle + feed_forward(middle)
};

}  // namespace

struct EncoderTrace::Impl {
  const Encoder& encoder;
  Executor* threads;
  PackedInput input;
  std::vector<LayerSteps> steps;
  Tensor<float, 2> last;  // [tokens, E]

  Impl(const Encoder& model, const EncoderInput& given, const EncoderTraceOptions& options)
      : encoder(model), threads(options.threads), input(given, model.config(), kFunction) {
    require(options.gates.empty() || options.gates.size() == model.layers().size(), kFunction,
            "gates must have one entry per layer",
            {{"gates", options.gates.size()}, {"num_layers", model.layers().size()}});
    Tensor<float, 2> x = embed();
    for (std::size_t n = 0; n < model.layers().size(); ++n) {
      LayerSteps& step = steps.emplace_back();
      if (!options.gates.empty() && options.gates[n]) {
        const TensorView<const float, 1> gates = options.gates[n];
        step.gates = Tensor<float, 1>({gates.shape(0)});
        for (index_t h = 0; h < gates.shape(0); ++h) step.gates(h) = gates(h);
      }
      x = forward(model.layers()[n], step, std::move(x));
    }
    last = std::move(x);
  }

  index_t tokens() const { return input.num_tokens(); }
  Tensor<float, 2> states() const { return Tensor<float, 2>({tokens(), encoder.config().d_model}); }

  AttentionOptions attention_options() const {
    AttentionOptions options;
    options.packed = {.cu_seqlens_q = input.offsets, .cu_seqlens_kv = input.offsets};
    options.threads = threads;
    return options;
  }

  nn::MultiHeadOptions<float> layer_options(const LayerSteps& step) const {
    nn::MultiHeadOptions<float> options;
    options.attention = attention_options();
    if (step.gates.data() != nullptr) options.gates = step.gates;
    return options;
  }

  Tensor<float, 2> embed() const {
    const EncoderEmbeddings& embeddings = encoder.embeddings();
    Tensor<float, 2> x = states();
    embeddings.word.forward(input.token_ids, x);
    if (encoder.config().num_token_types > 0) embeddings.token_type.forward(input.token_types, x, true);
    embeddings.position.forward(input.positions, x, true);
    embeddings.norm.forward(x, x, threads);
    return x;
  }

  Tensor<float, 2> forward(const EncoderLayer& layer, LayerSteps& step, Tensor<float, 2> x) const {
    step.x = std::move(x);
    step.attended = states();
    layer.attention.forward({.x_q = as_batch(std::as_const(step.x))}, {.y = as_batch(step.attended)},
                            layer_options(step), &step.attention);
    add(step.x, step.attended);
    step.middle = states();
    layer.attention_norm.forward(step.attended, step.middle, threads);
    step.fed = states();
    layer.feed_forward.forward(step.middle, step.fed, threads, &step.feed_forward);
    add(step.middle, step.fed);
    Tensor<float, 2> y = states();
    layer.feed_forward_norm.forward(step.fed, y, threads);
    return y;
  }

  // What of a layer follows its attention. y: in, what attention gave; out, the layer's result. x: its input.
  void finish(const EncoderLayer& layer, const Tensor<float, 2>& x, Tensor<float, 2>& y) const {
    add(x, y);
    layer.attention_norm.forward(y, y, threads);
    Tensor<float, 2> fed = states();
    layer.feed_forward.forward(y, fed, threads);
    add(y, fed);
    layer.feed_forward_norm.forward(fed, y, threads);
  }

  // y = heads w_o^T + b_o
  Tensor<float, 2> fuse(const EncoderLayer& layer, TensorView<const float, 3> heads) const {
    const nn::MultiHeadParameters<float>& p = layer.attention.parameters();
    Tensor<float, 2> y = states();
    const TensorView<const float, 2> rows(heads.data(), {heads.shape(0), heads.shape(1) * heads.shape(2)});
    matmul(rows, p.w_o, y, {.bias = p.b_o, .packed = &layer.attention.packed_weights().w_o, .threads = threads});
    return y;
  }

  // The attention of a layer on x with the queries and keys that the trace has: the same maps, other values.
  Tensor<float, 2> attend_as_recorded(const EncoderLayer& layer, const LayerSteps& step,
                                      const Tensor<float, 2>& x) const {
    const nn::MultiHeadParameters<float>& p = layer.attention.parameters();
    Tensor<float, 4> v(step.attention.v.shape()), heads(step.attention.heads.shape());
    matmul(x, p.w_v, TensorView<float, 2>(v.data(), {v.shape(1), v.shape(2) * v.shape(3)}),
           {.bias = p.b_v, .packed = &layer.attention.packed_weights().w_v, .threads = threads});
    attention_forward({.q = step.attention.q, .k = step.attention.k, .v = v}, {.out = heads}, attention_options());
    for (index_t n = 0; step.gates.data() != nullptr && n < heads.size(); ++n) {
      heads.data()[n] *= step.gates(n / heads.shape(3) % heads.shape(2));
    }
    return fuse(layer, {heads.data(), {heads.shape(1), heads.shape(2), heads.shape(3)}});
  }

  Tensor<float, 2> run_from(std::size_t first, TensorView<const float, 3> heads, LaterMaps maps) const {
    Tensor<float, 2> x = fuse(encoder.layers()[first], heads);
    finish(encoder.layers()[first], steps[first].x, x);
    for (std::size_t n = first + 1; n < steps.size(); ++n) {
      const EncoderLayer& layer = encoder.layers()[n];
      Tensor<float, 2> y;
      if (maps == LaterMaps::recorded && layer.attention.num_heads() > 0) {
        y = attend_as_recorded(layer, steps[n], x);
      } else {
        y = states();
        layer.attention.forward({.x_q = as_batch(std::as_const(x))}, {.y = as_batch(y)}, layer_options(steps[n]));
      }
      finish(layer, x, y);
      x = std::move(y);
    }
    return x;
  }

  // d: in, the gradient of a layer's result; out, that of its input.
  Tensor<float, 2> backward(const EncoderLayer& layer, const LayerSteps& step, Tensor<float, 2>& d) const {
    Tensor<float, 2> dbranch = states();
    layer.feed_forward_norm.backward(step.fed, d, d, nullptr, threads);
    layer.feed_forward.backward(step.middle, step.feed_forward, d, dbranch, nullptr, threads);
    add(dbranch, d);
    layer.attention_norm.backward(step.attended, d, d, nullptr, threads);
    Tensor<float, 2> dgates({input.batch(), layer.attention.num_heads()});
    if (dgates.size() == 0 || tokens() == 0) return dgates;
    layer.attention.backward({.x_q = as_batch(step.x)}, step.attention, as_batch(std::as_const(d)),
                             {.dx_q = as_batch(dbranch), .dgates = dgates.view()}, layer_options(step));
    add(dbranch, d);
    return dgates;
  }
};

EncoderTrace::EncoderTrace(const Encoder& encoder, const EncoderInput& input, const EncoderTraceOptions& options)
    : impl_(std::make_unique<const Impl>(encoder, input, options)) {}
EncoderTrace::~EncoderTrace() = default;
EncoderTrace::EncoderTrace(EncoderTrace&&) noexcept = default;
EncoderTrace& EncoderTrace::operator=(EncoderTrace&&) noexcept = default;

TensorView<const index_t, 1> EncoderTrace::offsets() const { return impl_->input.offsets; }
TensorView<const float, 2> EncoderTrace::last_hidden() const { return impl_->last; }

TensorView<const float, 3> EncoderTrace::head_outputs(index_t layer) const {
  const Tensor<float, 4>& heads = impl_->steps.at(static_cast<std::size_t>(layer)).attention.heads;
  return {heads.data(), {heads.shape(1), heads.shape(2), heads.shape(3)}};
}

TensorView<const float, 3> EncoderTrace::values(index_t layer) const {
  const Tensor<float, 4>& v = impl_->steps.at(static_cast<std::size_t>(layer)).attention.v;
  return {v.data(), {v.shape(1), v.shape(2), v.shape(3)}};
}

Tensor<float, 2> EncoderTrace::run_from(index_t layer, TensorView<const float, 3> heads, LaterMaps maps) const {
  const auto num_layers = static_cast<index_t>(impl_->steps.size());
  require(layer >= 0 && layer < num_layers, "EncoderTrace::run_from", "there must be such a layer",
          {{"layer", layer}, {"num_layers", num_layers}});
  const auto expected = head_outputs(layer).shape();
  require(heads.shape() == expected, "EncoderTrace::run_from", "heads must be [tokens, num_heads, head_dim]",
          {{"heads", shape_text(heads.shape().data(), 3)}, {"expected", shape_text(expected.data(), 3)}});
  return impl_->run_from(static_cast<std::size_t>(layer), heads, maps);
}

std::vector<Tensor<float, 2>> EncoderTrace::gate_gradients(TensorView<const float, 2> dlast_hidden) const {
  require(dlast_hidden.shape() == impl_->last.shape(), "EncoderTrace::gate_gradients",
          "dlast_hidden must have the shape of last_hidden",
          {{"dlast_hidden", shape_text(dlast_hidden.shape().data(), 2)},
           {"last_hidden", shape_text(impl_->last.shape().data(), 2)}});
  Tensor<float, 2> d = impl_->states();
  for (index_t i = 0; i < d.shape(0); ++i) {
    for (index_t e = 0; e < d.shape(1); ++e) d(i, e) = dlast_hidden(i, e);
  }
  std::vector<Tensor<float, 2>> gradients(impl_->steps.size());
  for (std::size_t n = gradients.size(); n-- > 0;) {
    gradients[n] = impl_->backward(impl_->encoder.layers()[n], impl_->steps[n], d);
  }
  return gradients;
}

}  // namespace multihead
