#include "tests/support/attention_problem.hpp"

#include <cmath>
#include <limits>
#include <sstream>

#include "core/ceil_div.hpp"
#include "reference/attention.hpp"

namespace multihead::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr index_t kPageSize = 16;

TensorView<const index_t, 1> view_of(const std::vector<index_t>& list) {
  if (list.empty()) return {};
  return {list.data(), {static_cast<index_t>(list.size())}};
}

/// `count` distinct numbers of [0, extent), in random order.
std::vector<index_t> choose(Random& random, index_t extent, index_t count) {
  std::vector<index_t> all(static_cast<std::size_t>(extent));
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t n = all.size(); n > 1; --n) {
    std::swap(all[n - 1], all[static_cast<std::size_t>(random.integer(0, static_cast<index_t>(n) - 1))]);
  }
  all.resize(static_cast<std::size_t>(count));
  return all;
}

double lowest_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return -65504;
    case DType::bf16: return -0x1.fep127;
    case DType::f64: return std::numeric_limits<double>::lowest();
    default: return std::numeric_limits<float>::lowest();
  }
}

/// The extents of a broadcast operand: those of `full` where `keep` is set, else 1.
std::array<index_t, 4> kept_axes(const std::array<index_t, 4>& full, std::array<bool, 4> keep) {
  std::array<index_t, 4> shape{};
  for (int axis = 0; axis < 4; ++axis) shape[axis] = keep[axis] ? full[axis] : 1;
  return shape;
}

}  // namespace

template <class Real>
Engine reference_engine() {
  return {reference::attention_forward<Real>, [](const auto& input, const auto& gradients, const auto& options) {
            reference::attention_backward<Real>(input, gradients, options);
          }};
}
template Engine reference_engine<float>();
template Engine reference_engine<double>();
template Engine reference_engine<long double>();

AttentionConfig AttentionConfig::normalised() const {
  AttentionConfig c = *this;
  if (c.arrangement == Arrangement::packed) c.lengths = Lengths::none;
  if (c.arrangement == Arrangement::paged && c.lengths == Lengths::none) c.lengths = Lengths::kv;
  if (c.dtype == DType::f64) c.mixture = Mixture::same, c.bias_dtype = DType::f32;
  if (c.causal == Causal::at_offset) c.offsets = Offsets::given;
  if (c.causal == Causal::top_left || c.causal == Causal::bottom_right) c.offsets = Offsets::none;
  return c;
}

std::string AttentionConfig::text() const {
  std::ostringstream text;
  const auto optional = [](const auto& x) {
    std::ostringstream o;
    if (x) o << *x;
    return x ? o.str() : std::string("unset");
  };
  text << "B" << batch << " Sq" << seqlen_q << " Skv" << seqlen_kv << " H" << num_heads << " D" << head_dim << " Dv"
       << head_dim_v << " " << dtype_name(dtype) << " mixture=" << int(mixture) << " arrangement=" << int(arrangement)
       << " values=" << int(values) << " scale=" << int(scale) << " softcap=" << optional(softcap)
       << " bias=" << int(bias) << " of " << dtype_name(bias_dtype) << " alibi=" << alibi << " causal=" << int(causal)
       << " offsets=" << int(offsets) << " left=" << optional(window_left) << " right=" << optional(window_right)
       << " visible=" << int(visible) << " lengths=" << int(lengths) << " sinks=" << int(sinks)
       << " dropout=" << dropout << " kv_heads=" << int(kv_heads) << " probs=" << int(probs) << " dlse=" << dlse;
  return text.str();
}

AttentionProblem::AttentionProblem(const AttentionConfig& described, std::uint64_t seed)
    : config(described.normalised()) {
  Random random(seed);
  draw_lengths(random);
  lay_out(random);
  draw_masks(random);
  draw_numbers(random);
}

DType AttentionProblem::cache_dtype() const {
  switch (config.mixture) {
    case Mixture::same: return config.dtype;
    case Mixture::bf16_cache: return DType::bf16;
    case Mixture::f16_cache: return DType::f16;
    case Mixture::f32_cache: return DType::f32;
  }
  return config.dtype;
}

index_t AttentionProblem::num_queries(index_t b) const {
  if (!cu_q.empty()) return cu_q[b + 1] - cu_q[b];
  return seqlen_q.empty() ? config.seqlen_q : seqlen_q[b];
}

index_t AttentionProblem::num_keys(index_t b) const {
  if (!cu_kv.empty()) return cu_kv[b + 1] - cu_kv[b];
  return seqlen_kv.empty() ? config.seqlen_kv : seqlen_kv[b];
}

void AttentionProblem::draw_lengths(Random& random) {
  const bool packed = config.arrangement == Arrangement::packed;
  if (packed) cu_q = cu_kv = {0};
  for (index_t b = 0; b < config.batch; ++b) {
    // The first sequence is as long as any may be, so that local coordinates have the configured extents.
    const auto length = [&](index_t most) { return b == 0 ? most : random.chance(0.2) ? 0 : random.integer(0, most); };
    if (packed) {
      cu_q.push_back(cu_q.back() + length(config.seqlen_q));
      cu_kv.push_back(cu_kv.back() + length(config.seqlen_kv));
    }
    if (config.lengths != Lengths::none) seqlen_kv.push_back(random.integer(0, config.seqlen_kv));
    if (config.lengths == Lengths::q_and_kv) seqlen_q.push_back(random.integer(0, config.seqlen_q));
    if (config.offsets == Offsets::given) offsets.push_back(random.integer(-3, config.seqlen_kv));
    if (config.dropout > 0) sequence_ids.push_back(random.integer(0, index_t{0xffffffff}));
  }
  if (random.chance(0.3)) sequence_ids.clear();
}

Layout<4> AttentionProblem::token_layout() const {
  Layout<4> layout;
  if (config.arrangement == Arrangement::bhsd) layout.order = {0, 2, 1, 3};
  if (config.arrangement == Arrangement::gaps) layout.row_gap = 5;
  return layout;
}

void AttentionProblem::lay_out(Random& random) {
  const index_t heads = config.num_heads;
  switch (config.kv_heads) {
    case KvHeads::equal: num_kv_heads = heads; break;
    case KvHeads::one: num_kv_heads = 1; break;
    case KvHeads::grouped: num_kv_heads = heads % 2 == 0 ? heads / 2 : heads; break;
    case KvHeads::mapped:
      num_kv_heads = std::max<index_t>(1, heads - 1);
      for (index_t h = 0; h < heads; ++h) kv_head_of.push_back(random.integer(0, num_kv_heads - 1));
      break;
  }
  index_t batch_q = config.batch, batch_kv = config.batch, tokens_q = config.seqlen_q, tokens_kv = config.seqlen_kv;
  if (config.arrangement == Arrangement::packed) {
    batch_q = batch_kv = 1;
    tokens_q = cu_q.back();
    tokens_kv = cu_kv.back();
  }
  if (config.arrangement == Arrangement::paged) {
    pages = ceil_div(config.seqlen_kv, kPageSize);
    batch_kv = config.batch * pages + 2;
    tokens_kv = kPageSize;
    page_table = choose(random, batch_kv, config.batch * pages);
    for (index_t b = 0; b < config.batch; ++b) {  // what lies past a sequence's keys is never looked at
      for (index_t page = ceil_div(seqlen_kv[b], kPageSize); page < pages; ++page) {
        page_table[b * pages + page] = random.chance(0.5) ? -1 : index_t{1} << 40;
      }
    }
  }
  Layout<4> layout = token_layout();
  q = AnyTensor<4>(config.dtype, {batch_q, tokens_q, heads, config.head_dim}, layout);
  if (config.arrangement == Arrangement::expanded_kv) layout.expanded_axis = 2;
  k = AnyTensor<4>(cache_dtype(), {batch_kv, tokens_kv, num_kv_heads, config.head_dim}, layout);
  v = AnyTensor<4>(cache_dtype(), {batch_kv, tokens_kv, num_kv_heads, config.head_dim_v}, layout);
  dout = AnyTensor<4>(config.dtype, {batch_q, tokens_q, heads, config.head_dim_v}, token_layout());
  if (config.dlse) dlse = AnyTensor<3>(wide_dtype(), {batch_q, heads, tokens_q});
}

void AttentionProblem::draw_masks(Random& random) {
  index_t keys = config.seqlen_kv;
  if (config.arrangement == Arrangement::paged) keys = pages * kPageSize;
  const std::array<index_t, 4> full{config.batch, config.num_heads, config.seqlen_q, keys};
  const auto axes = [](auto kind) -> std::array<bool, 4> {
    using Kind = decltype(kind);
    if (kind == Kind::rank2) return {false, false, true, true};
    if (kind == Kind::per_query) return {false, false, true, false};
    if (kind == Kind::per_key) return {true, false, false, true};
    return {true, true, true, true};
  };
  if (config.visible != Visible::none) {
    visible = AnyTensor<4>(DType::boolean, kept_axes(full, axes(config.visible)));
    visible.generate([&](auto index) { return index[2] % 5 == 3 ? 0.0 : random.chance(0.7); });
  }
  if (config.bias != Bias::none) {
    const auto keep =
        config.bias == Bias::per_head ? std::array<bool, 4>{false, true, false, false} : axes(config.bias);
    bias = AnyTensor<4>(bias_dtype(), kept_axes(full, keep));
    const double lowest = lowest_of(bias_dtype());
    bias.generate([&](auto index) {
      if (config.bias == Bias::with_infinite && (index[2] % 5 == 2 || random.chance(0.3))) return -kInfinity;
      if (config.bias == Bias::lowest && (index[2] % 5 == 2 || random.chance(0.3))) return lowest;
      return random.uniform(-2, 2);
    });
  }
  if (config.probs == Probs::heads || config.probs == Probs::heads_and_rows) {
    probs_heads = choose(random, config.num_heads, std::max<index_t>(1, config.num_heads / 2));
  }
  if (config.probs == Probs::heads_and_rows && config.seqlen_q > 0) {
    probs_rows = choose(random, config.seqlen_q, (config.seqlen_q + 1) / 2);
  }
}

void AttentionProblem::draw_numbers(Random& random) {
  const double spread = config.values == Values::peaked ? 4 : 1, offset = config.values == Values::offset ? 1 : 0;
  const auto around = [&](double centre) {
    return [&random, spread, centre](auto) { return centre + spread * random.uniform(); };
  };
  q.generate(around(offset));
  k.generate(around(4 * offset));
  v.generate(around(10 * offset));
  dout.generate(around(2 * offset));
  dlse.generate(around(offset));
  if (config.sinks != Sinks::none) {
    sinks = AnyTensor<1>(wide_dtype(), {config.num_heads});
    sinks.generate([&](auto h) {
      return config.sinks == Sinks::some_infinite && h[0] % 2 == 0 ? -kInfinity : random.uniform(-1, 2);
    });
  }
  if (config.alibi) {
    slopes = AnyTensor<1>(wide_dtype(), {config.num_heads});
    slopes.generate([&](auto h) { return std::exp2(-static_cast<double>(h[0]) - 1) * random.uniform(0.5, 1.5); });
  }
}

AttentionOptions AttentionProblem::options() const {
  AttentionOptions o;
  switch (config.scale) {
    case Scale::unset: break;
    case Scale::negative: o.scale = -0.3; break;
    case Scale::zero: o.scale = 0.0; break;
    case Scale::large: o.scale = 1.7; break;
  }
  o.softcap = config.softcap;
  o.bias = bias ? bias.broadcast() : BroadcastView();
  o.alibi_slopes = slopes ? slopes.in() : InputView<1>();
  o.sinks = sinks ? sinks.in() : InputView<1>();
  o.mask = {.causal = config.causal,
            .window_left = config.window_left,
            .window_right = config.window_right,
            .diagonal_offset = view_of(offsets),
            .seqlen_q = view_of(seqlen_q),
            .seqlen_kv = view_of(seqlen_kv),
            .visible = visible ? visible.broadcast() : BroadcastView()};
  o.dropout = {.probability = config.dropout, .seed = 0x123456789abcdef0, .sequence_ids = view_of(sequence_ids)};
  o.kv_head_of = view_of(kv_head_of);
  o.packed = {.cu_seqlens_q = view_of(cu_q), .cu_seqlens_kv = view_of(cu_kv)};
  if (config.arrangement == Arrangement::paged) o.page_table = {page_table.data(), {config.batch, pages}};
  o.probs = {.heads = view_of(probs_heads), .rows = view_of(probs_rows)};
  o.threads = threads;
  return o;
}

ForwardResult AttentionProblem::forward(const Engine& engine, std::optional<DType> dtype) const {
  const std::array<index_t, 3> rows{q.shape()[0], q.shape()[2], q.shape()[1]};
  const DType wide = dtype.value_or(wide_dtype());
  ForwardResult result;
  result.out =
      AnyTensor<4>(dtype.value_or(out_dtype()), {rows[0], rows[2], rows[1], config.head_dim_v}, token_layout());
  result.row_max = AnyTensor<3>(wide, rows);
  result.row_sum = AnyTensor<3>(wide, rows);
  result.lse = AnyTensor<3>(wide, rows);
  if (config.probs != Probs::none) {
    const auto chosen = [](const auto& list, index_t all) {
      return list.empty() ? all : static_cast<index_t>(list.size());
    };
    const index_t keys = pages > 0 ? pages * kPageSize : config.seqlen_kv;
    result.probs = AnyTensor<4>(
        wide, {config.batch, chosen(probs_heads, config.num_heads), chosen(probs_rows, config.seqlen_q), keys});
  }
  AttentionOutput output{.out = result.out.out(),
                         .row_max = result.row_max.out(),
                         .row_sum = result.row_sum.out(),
                         .lse = result.lse.out()};
  if (result.probs) output.probs = result.probs.out();
  engine.forward(input(), output, options());
  return result;
}

BackwardResult AttentionProblem::backward(const Engine& engine, const ForwardResult& saved,
                                          std::optional<DType> dtype) const {
  const DType narrow = dtype.value_or(out_dtype()), wide = dtype.value_or(wide_dtype());
  BackwardResult result;
  result.dq = AnyTensor<4>(narrow, q.shape(), token_layout());
  result.dk = AnyTensor<4>(dtype.value_or(cache_dtype()), k.shape(), token_layout());
  result.dv = AnyTensor<4>(dtype.value_or(cache_dtype()), v.shape(), token_layout());
  if (bias) result.dbias = AnyTensor<4>(wide, bias.shape());
  if (sinks) result.dsinks = AnyTensor<1>(wide, sinks.shape());
  if (slopes) result.dslopes = AnyTensor<1>(wide, slopes.shape());

  const AttentionBackwardInput from{q.in(),
                                    k.in(),
                                    v.in(),
                                    saved.out.in(),
                                    saved.row_max.in(),
                                    saved.row_sum.in(),
                                    dout.in(),
                                    dlse ? dlse.in() : InputView<3>()};
  AttentionGradients gradients{.dq = result.dq.out(), .dk = result.dk.out(), .dv = result.dv.out()};
  if (bias) gradients.dbias = result.dbias.broadcast_out();
  if (sinks) gradients.dsinks = result.dsinks.out();
  if (slopes) gradients.dslopes = result.dslopes.out();
  engine.backward(from, gradients, options());
  return result;
}

}  // namespace multihead::test
