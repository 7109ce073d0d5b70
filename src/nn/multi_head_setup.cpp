// MultiHeadAttention: construction, initialization, views of single heads, removal of heads.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/require.hpp"
#include "core/splitmix64.hpp"
#include "multihead/nn/multi_head_attention.hpp"
#include "nn/projection.hpp"

namespace multihead::nn {
namespace {

MultiHeadExtents designed_extents(const MultiHeadConfig& c) {
  const char* function = "MultiHeadAttention";
  MultiHeadExtents e{};
  e.d_model = c.d_model;
  e.num_heads = c.num_heads;
  e.num_kv_heads = c.num_kv_heads.value_or(c.num_heads);
  require(e.d_model > 0 && e.num_heads > 0 && e.num_kv_heads > 0, function,
          "d_model, num_heads and num_kv_heads must be above 0",
          {{"d_model", e.d_model}, {"num_heads", e.num_heads}, {"num_kv_heads", e.num_kv_heads}});
  require(e.num_heads % e.num_kv_heads == 0, function, "num_heads must be a multiple of num_kv_heads",
          {{"num_heads", e.num_heads}, {"num_kv_heads", e.num_kv_heads}});
  require(c.head_dim || e.d_model % e.num_heads == 0, function, "num_heads must divide d_model",
          {{"d_model", e.d_model}, {"num_heads", e.num_heads}}, "or give head_dim");
  e.head_dim = c.head_dim.value_or(e.d_model / e.num_heads);
  e.head_dim_v = c.head_dim_v.value_or(e.head_dim);
  e.k_width = c.k_width.value_or(e.d_model);
  e.v_width = c.v_width.value_or(e.d_model);
  e.y_width = c.y_width.value_or(e.d_model);
  require(e.head_dim > 0 && e.head_dim_v > 0 && e.k_width > 0 && e.v_width > 0 && e.y_width > 0, function,
          "all widths must be above 0",
          {{"head_dim", e.head_dim},
           {"head_dim_v", e.head_dim_v},
           {"k_width", e.k_width},
           {"v_width", e.v_width},
           {"y_width", e.y_width}});
  require(c.dropout >= 0 && c.dropout <= 1, function, "dropout must be in [0, 1]", {{"dropout", c.dropout}});
  require(!(c.sinks && c.zero_attn), function, "sinks and zero_attn must not go together", {},
          "zero_attn is a sink of logit 0");
  if (c.rope) Rope(*c.rope, e.head_dim);  // throws if it is invalid
  return e;
}

RemainingHeads all_heads(const MultiHeadExtents& e) {
  RemainingHeads heads;
  for (index_t h = 0; h < e.num_heads; ++h) heads.original_heads.push_back(h);
  for (index_t g = 0; g < e.num_kv_heads; ++g) heads.original_kv_heads.push_back(g);
  for (index_t h = 0; h < e.num_heads; ++h) heads.kv_head_of.push_back(h / (e.num_heads / e.num_kv_heads));
  return heads;
}

bool ascending_below(const std::vector<index_t>& list, index_t limit) {
  return std::is_sorted(list.begin(), list.end(), std::less_equal<>{}) &&
         std::all_of(list.begin(), list.end(), [&](index_t n) { return n >= 0 && n < limit; });
}

void check_heads(const MultiHeadExtents& designed, const RemainingHeads& heads) {
  const char* function = "MultiHeadAttention";
  require(ascending_below(heads.original_heads, designed.num_heads), function,
          "original_heads must ascend and be below num_heads",
          {{"original_heads", shape_text(heads.original_heads)}, {"num_heads", designed.num_heads}});
  require(ascending_below(heads.original_kv_heads, designed.num_kv_heads), function,
          "original_kv_heads must ascend and be below num_kv_heads",
          {{"original_kv_heads", shape_text(heads.original_kv_heads)}, {"num_kv_heads", designed.num_kv_heads}});
  const index_t heads_per_kv = designed.num_heads / designed.num_kv_heads;
  bool fits = heads.kv_head_of.size() == heads.original_heads.size();
  for (std::size_t h = 0; fits && h < heads.kv_head_of.size(); ++h) {
    const index_t g = heads.kv_head_of[h];
    fits = g >= 0 && g < index_t(heads.original_kv_heads.size()) &&
           heads.original_kv_heads[static_cast<std::size_t>(g)] == heads.original_heads[h] / heads_per_kv;
  }
  require(fits, function, "kv_head_of must lead each head to its kv head",
          {{"original_heads", shape_text(heads.original_heads)},
           {"original_kv_heads", shape_text(heads.original_kv_heads)},
           {"kv_head_of", shape_text(heads.kv_head_of)},
           {"heads_per_kv", heads_per_kv}});
}

template <class T>
MultiHeadParameters<T> zero_parameters(const MultiHeadConfig& c, const MultiHeadExtents& e) {
  MultiHeadParameters<T> p;
  p.w_q = Tensor<T, 2>({e.num_heads * e.head_dim, e.d_model});
  p.w_k = Tensor<T, 2>({e.num_kv_heads * e.head_dim, e.k_width});
  p.w_v = Tensor<T, 2>({e.num_kv_heads * e.head_dim_v, e.v_width});
  p.w_o = Tensor<T, 2>({e.y_width, e.num_heads * e.head_dim_v});
  if (c.b_q) p.b_q = Tensor<T, 1>({e.num_heads * e.head_dim});
  if (c.b_k) p.b_k = Tensor<T, 1>({e.num_kv_heads * e.head_dim});
  if (c.b_v) p.b_v = Tensor<T, 1>({e.num_kv_heads * e.head_dim_v});
  if (c.b_o) p.b_o = Tensor<T, 1>({e.y_width});
  if (c.q_norm) p.q_norm = Tensor<T, 1>({e.head_dim});
  if (c.k_norm) p.k_norm = Tensor<T, 1>({e.head_dim});
  if (c.bias_kv) p.bias_k = Tensor<T, 2>({e.num_kv_heads, e.head_dim});
  if (c.bias_kv) p.bias_v = Tensor<T, 2>({e.num_kv_heads, e.head_dim_v});
  if (c.sinks) p.sinks = Tensor<T, 1>({e.num_heads});
  return p;
}

// The n-th number of a seed, uniform in [-1, 1).
double uniform(std::uint64_t seed, std::uint64_t n) {
  return static_cast<double>(splitmix64(seed + n * kSplitMix64Step) >> 11) * 0x1p-52 - 1.0;
}

// The entries of `x` along `axis` that belong to the blocks in `kept`, each of length `width`.
template <class T, int R>
void keep_blocks(Tensor<T, R>& x, int axis, const std::vector<index_t>& kept, index_t width) {
  if (!x.data()) return;
  auto shape = x.shape();
  shape[axis] = static_cast<index_t>(kept.size()) * width;
  Tensor<T, R> result(shape);
  index_t outer = 1, inner = 1;
  for (int a = 0; a < axis; ++a) outer *= shape[a];
  for (int a = axis + 1; a < R; ++a) inner *= shape[a];
  for (index_t o = 0; o < outer; ++o) {
    const T* from = x.data() + o * x.shape(axis) * inner;
    T* to = result.data() + o * shape[axis] * inner;
    for (const index_t block : kept) to = std::copy_n(from + block * width * inner, width * inner, to);
  }
  x = std::move(result);
}

// Entries [begin, end) along one axis; absent for a parameter without data.
template <class T, int R>
TensorView<T, R> part(TensorView<T, R> view, int axis, index_t begin, index_t end) {
  return view.data() ? view.slice(axis, begin, end) : TensorView<T, R>();
}

template <class T, class Parameters>
HeadView<T> head_view(Parameters& p, const MultiHeadExtents& e, const RemainingHeads& heads, index_t h) {
  require(h >= 0 && h < e.num_heads, "MultiHeadAttention::head", "the head must be one of num_heads",
          {{"head", h}, {"num_heads", e.num_heads}});
  const index_t g = heads.kv_head_of[static_cast<std::size_t>(h)];
  const index_t dq = e.head_dim, dv = e.head_dim_v;
  return {heads.original_heads[static_cast<std::size_t>(h)], heads.original_kv_heads[static_cast<std::size_t>(g)],
          part<T, 2>(p.w_q.view(), 0, h * dq, (h + 1) * dq), part<T, 2>(p.w_k.view(), 0, g * dq, (g + 1) * dq),
          part<T, 2>(p.w_v.view(), 0, g * dv, (g + 1) * dv), part<T, 2>(p.w_o.view(), 1, h * dv, (h + 1) * dv),
          part<T, 1>(p.b_q.view(), 0, h * dq, (h + 1) * dq), part<T, 1>(p.b_k.view(), 0, g * dq, (g + 1) * dq),
          part<T, 1>(p.b_v.view(), 0, g * dv, (g + 1) * dv)};
}

}  // namespace

template <class T>
MultiHeadAttention<T>::MultiHeadAttention(const MultiHeadConfig& config)
    : MultiHeadAttention(config, all_heads(designed_extents(config))) {}

template <class T>
MultiHeadAttention<T>::MultiHeadAttention(const MultiHeadConfig& config, const RemainingHeads& heads)
    : config_(config), extents_(designed_extents(config)), heads_(heads) {
  check_heads(extents_, heads);
  extents_.num_heads = static_cast<index_t>(heads.original_heads.size());
  extents_.num_kv_heads = static_cast<index_t>(heads.original_kv_heads.size());
  parameters_ = zero_gradients();
  if (config.q_norm) std::fill_n(parameters_.q_norm.data(), parameters_.q_norm.size(), T{1});
  if (config.k_norm) std::fill_n(parameters_.k_norm.data(), parameters_.k_norm.size(), T{1});
}

template <class T>
MultiHeadParameters<T> MultiHeadAttention<T>::zero_gradients() const {
  return zero_parameters<T>(config_, extents_);
}

template <class T>
void MultiHeadAttention<T>::initialize(std::uint64_t seed) {
  std::uint64_t n = 0;
  const auto fill = [&](Tensor<T, 2>& w) {
    const double bound = std::sqrt(6.0 / static_cast<double>(std::max<index_t>(w.shape(0) + w.shape(1), 1)));
    for (index_t at = 0; at < w.size(); ++at) w.data()[at] = static_cast<T>(bound * uniform(seed, n++));
  };
  parameters().for_each([&](std::string_view name, auto& p) {
    if constexpr (std::is_same_v<std::decay_t<decltype(p)>, Tensor<T, 2>>) {
      fill(p);
    } else {
      std::fill_n(p.data(), p.size(), name.ends_with("_norm") ? T{1} : T{0});
    }
  });
}

template <class T>
MultiHeadParameters<T>& MultiHeadAttention<T>::parameters() {
  packed_ = {};
  return parameters_;
}

template <class T>
void MultiHeadAttention<T>::pack_weights(Executor* threads) {
  const auto pack = [&](const Tensor<T, 2>& w) { return PackedMatrix<T>(w.view(), threads); };
  packed_ = {pack(parameters_.w_q), pack(parameters_.w_k), pack(parameters_.w_v), pack(parameters_.w_o)};
}

template <class T>
HeadView<T> MultiHeadAttention<T>::head(index_t h) {
  packed_ = {};
  return head_view<T>(parameters_, extents_, heads_, h);
}

template <class T>
HeadView<const T> MultiHeadAttention<T>::head(index_t h) const {
  return head_view<const T>(parameters_, extents_, heads_, h);
}

template <class T>
RemovedHeads MultiHeadAttention<T>::remove_heads(std::span<const index_t> original_heads, RemoveAll all) {
  const char* function = "MultiHeadAttention::remove_heads";
  RemovedHeads result;
  for (const index_t head : original_heads) {
    require(head >= 0 && head < config_.num_heads, function, "a head must be one of the original layer",
            {{"head", head}, {"num_heads", config_.num_heads}});
    const bool here = std::binary_search(heads_.original_heads.begin(), heads_.original_heads.end(), head);
    std::vector<index_t>& list = here ? result.removed : result.already_gone;
    if (std::find(list.begin(), list.end(), head) == list.end()) list.push_back(head);
  }
  const bool none_left = !result.removed.empty() && static_cast<index_t>(result.removed.size()) == extents_.num_heads;
  require(!none_left || all == RemoveAll::allow, function, "a head must remain",
          {{"removed", shape_text(result.removed)}, {"num_heads", extents_.num_heads}},
          "RemoveAll::allow leaves the output bias alone");

  std::vector<index_t> kept, kept_kv;  // indices before the removal
  for (index_t h = 0; h < extents_.num_heads; ++h) {
    const index_t original = heads_.original_heads[static_cast<std::size_t>(h)];
    if (std::find(result.removed.begin(), result.removed.end(), original) != result.removed.end()) continue;
    kept.push_back(h);
    const index_t g = heads_.kv_head_of[static_cast<std::size_t>(h)];
    if (kept_kv.empty() || kept_kv.back() != g) kept_kv.push_back(g);  // kv_head_of ascends with h
  }
  keep_heads(kept, kept_kv);
  return result;
}

template <class T>
void MultiHeadAttention<T>::keep_heads(const std::vector<index_t>& kept, const std::vector<index_t>& kept_kv) {
  const index_t dq = extents_.head_dim, dv = extents_.head_dim_v;
  MultiHeadParameters<T>& p = parameters();
  keep_blocks(p.w_q, 0, kept, dq), keep_blocks(p.b_q, 0, kept, dq);
  keep_blocks(p.w_k, 0, kept_kv, dq), keep_blocks(p.b_k, 0, kept_kv, dq);
  keep_blocks(p.w_v, 0, kept_kv, dv), keep_blocks(p.b_v, 0, kept_kv, dv);
  keep_blocks(p.w_o, 1, kept, dv);
  keep_blocks(p.bias_k, 0, kept_kv, 1), keep_blocks(p.bias_v, 0, kept_kv, 1);
  keep_blocks(p.sinks, 0, kept, 1);

  RemainingHeads heads;
  for (const index_t g : kept_kv)
    heads.original_kv_heads.push_back(heads_.original_kv_heads[static_cast<std::size_t>(g)]);
  for (const index_t h : kept) {
    const index_t g = heads_.kv_head_of[static_cast<std::size_t>(h)];
    heads.original_heads.push_back(heads_.original_heads[static_cast<std::size_t>(h)]);
    heads.kv_head_of.push_back(std::lower_bound(kept_kv.begin(), kept_kv.end(), g) - kept_kv.begin());
  }
  heads_ = std::move(heads);
  extents_.num_heads = static_cast<index_t>(kept.size());
  extents_.num_kv_heads = static_cast<index_t>(kept_kv.size());
}

template class MultiHeadAttention<float>;
template class MultiHeadAttention<double>;

}  // namespace multihead::nn
